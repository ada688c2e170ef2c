"""Does a plan belong to this model? Compares model texts and says where they differ."""

from __future__ import annotations

from itertools import zip_longest

from armtrain.errors import PlanError
from armtrain.ir.program import Program
from armtrain.planfile.hash import model_hash

__all__ = ["verify_same_model"]


def verify_same_model(planned: Program, wanted: Program) -> None:
    """Refuse unless both programs have the same model hash.

    Raises
    ------
    PlanError
        With both hashes, both batch sizes and the first line that differs.
    """
    have, want = model_hash(planned).hex(), model_hash(wanted).hex()
    if have == want:
        return
    lines = zip_longest(planned.model_text.splitlines(), wanted.model_text.splitlines())
    old, new = next(((a, b) for a, b in lines if a != b), ("", ""))
    raise PlanError(
        f"the plan belongs to another model: its model hash is {have[:16]}… (batch "
        f"{planned.batch_size}), this model's is {want[:16]}… (batch {wanted.batch_size}); first "
        f"difference: plan has '{old or 'nothing'}', model has '{new or 'nothing'}'. "
        "Plan again with this model and batch size"
    )
