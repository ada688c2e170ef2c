"""What a training run reports: one record an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["EpochRecord", "Evaluation", "History"]


@dataclass(frozen=True)
class EpochRecord:
    """One line of the training log; the field names are its keys.

    Attributes
    ----------
    epoch : int
        Counted from 1.
    kernel_level : str
        Kernels that ran, for example 'vec_avx2'.
    train_loss : float
        Mean over what counts in the epoch (see `Evaluation`), 0 without any; each loss taken
        before its step.
    val_loss, val_accuracy : float or None
        On the validation data after the epoch; the accuracy (0 to 1) for labels only.
    seconds : float
        Training time of this process for the epoch, without validation and checkpoints.
    samples_per_second : float
    arena_bytes, peak_rss_bytes : int
        Planned arena; highest resident memory of the process so far.
    swap_read_bytes, swap_written_bytes : int
        Traffic of the swap file in this epoch.
    """

    epoch: int
    kernel_level: str
    train_loss: float
    val_loss: float | None
    val_accuracy: float | None
    seconds: float
    samples_per_second: float
    arena_bytes: int
    peak_rss_bytes: int
    swap_read_bytes: int
    swap_written_bytes: int

    def to_json_dict(self) -> dict[str, object]:
        """Return the record as the log's JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"train loss {self.train_loss:.4f}"
        if self.val_loss is not None:
            text += f"  val loss {self.val_loss:.4f}"
        if self.val_accuracy is not None:
            text += f"  val accuracy {100 * self.val_accuracy:.2f} %"
        return f"{text}  {self.seconds:.2f} s  {self.samples_per_second:.0f} samples/s"


@dataclass(frozen=True)
class Evaluation:
    """Result of a pass over data without training.

    Attributes
    ----------
    loss : float
        Mean over what counts: samples, or places with a label each, that the loss does not
        ignore, each with the weight of its class; the same in batches of any size. 0 without any.
    accuracy : float or None
        Share of samples, of those that the loss does not ignore, whose largest output is the
        label; None without any, or without labels.
    samples, correct : int
    metrics : dict
        What `evaluate(metrics=...)` asked for, by name: numbers, and for 'confusion' rows of
        counts, one row for each label and one column for each predicted class.
    counted : float
        What `loss` was divided by: samples, or labels that count or the weights of their classes,
        in sum. The mean of several evaluations is that of their losses with these weights.
    """

    loss: float
    accuracy: float | None
    samples: int
    correct: int
    metrics: dict[str, Any] = field(default_factory=dict)
    counted: float = 0.0


_HEADING = f"{'epoch':>5}  {'train loss':>10}  {'val loss':>10}  {'accuracy':>9}  {'seconds':>8}"


def _row(record: EpochRecord) -> str:
    """Return an epoch as a line under `_HEADING`."""
    loss = "-" if record.val_loss is None else f"{record.val_loss:.4f}"
    right = "-" if record.val_accuracy is None else f"{100 * record.val_accuracy:.2f} %"
    return (
        f"{record.epoch:>5}  {record.train_loss:>10.4f}  {loss:>10}  {right:>9}  "
        f"{record.seconds:>8.2f}"
    )


@dataclass(frozen=True, repr=False)
class History:
    """The epochs that one call of `fit` trained.

    Attributes
    ----------
    epochs : tuple of EpochRecord
    best_epoch : int or None
        Epoch of the best watched value, counted from 1 over the whole run; None if `fit` was not
        asked to watch one.
    stopped_early : bool
        Whether `early_stopping` ended the run.

    Examples
    --------
    >>> History(()).train_loss
    []
    >>> History(())
    <History of no epochs>
    """

    epochs: tuple[EpochRecord, ...]
    best_epoch: int | None = None
    stopped_early: bool = False

    def __repr__(self) -> str:
        if not self.epochs:
            return "<History of no epochs>"
        last = self.epochs[-1]
        return f"<History of {len(self)} epoch(s), the last: train loss {last.train_loss:.4g}>"

    def __str__(self) -> str:
        """Return a table, one line an epoch."""
        return "\n".join([_HEADING, *map(_row, self.epochs)]) if self.epochs else repr(self)

    def __len__(self) -> int:
        return len(self.epochs)

    def __iter__(self) -> Iterator[EpochRecord]:
        return iter(self.epochs)

    def __getitem__(self, index: int) -> EpochRecord:
        return self.epochs[index]

    @property
    def train_loss(self) -> list[float]:
        """Return the training loss of each epoch."""
        return [e.train_loss for e in self.epochs]

    @property
    def val_loss(self) -> list[float | None]:
        """Return the validation loss of each epoch."""
        return [e.val_loss for e in self.epochs]

    @property
    def val_accuracy(self) -> list[float | None]:
        """Return the validation accuracy of each epoch."""
        return [e.val_accuracy for e in self.epochs]
