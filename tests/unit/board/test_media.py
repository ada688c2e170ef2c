"""Storage media: by name, by file, in plans, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.board.media import Medium, load_medium
from armtrain.board.profile import load_board
from armtrain.cli.main import main
from armtrain.errors import ArgumentError, PlanError
from armtrain.planfile.plan import Plan

SD = Medium("sd-ddr50", "sd", 44.0, 34.0, 773.0, 1365.0)
TABLE = """
[[storage]]
id = "my-card"
kind = "sd"
mode = "SDR104"
bus_mb_s = { value = 104, source = "assumed" }
read_mb_s = { value = 80.5, source = "measured: me" }
write_mb_s = { value = 20, source = "measured: me" }
read_latency_us = { value = 300, source = "assumed" }
write_latency_us = { value = 900, source = "assumed" }
"""


def planned(storage: str | None, board: str = "raspberrypi-4b") -> Plan:
    """Return the plan of one layer."""
    return at.plan(
        nn.Linear(4, 2),
        input_shape=(4,),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1),
        board=board,
        storage=storage,
    )


def test_a_medium_of_the_board() -> None:
    assert load_medium("sd-ddr50", load_board("raspberrypi-4b")) == SD


def test_the_first_table_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(TABLE)
    card = Medium("my-card", "sd", 80.5, 20.0, 300.0, 900.0)
    assert load_medium(str(path), load_board("generic")) == card
    whole_board = Path(__file__).resolve().parents[3] / "boards" / "odroid-c2.toml"
    assert load_medium(str(whole_board), load_board("generic")).id == "emmc-hs200"


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("raspberrypi-4b", "it has sd-ddr50, usb3-ssd;"),
        ("generic", "its profile describes none;"),
    ],
)
def test_an_unknown_medium_lists_the_known_ones(board: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=f"board '{board}' has no storage 'floppy': {said}"):
        planned("floppy", board)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("storage =", "cannot read the storage profile"),
        ('id = "x"\n', r"has no \[\[storage\]\] table"),
        ("storage = 3\n", r"has no \[\[storage\]\] table"),
        (TABLE.replace("kind = ", "sort = "), "sort"),
        (TABLE.replace("value = 80.5,", "value = 805,"), "read_mb_s is 805, but bus_mb_s only 104"),
        (TABLE.replace("value = 20,", f"value = {'9' * 5000},"), "cannot read the storage profile"),
        (TABLE.replace("value = 20,", "value = -20,"), "write_mb_s' must be a positive number"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=cause):
        load_medium(str(path), load_board("generic"))


def test_a_plan_keeps_the_medium_and_nothing_else_changes() -> None:
    without, plan = planned(None), planned("sd-ddr50")
    assert Plan.from_bytes(plan.to_bytes()) == plan
    assert plan.storage == SD
    assert replace(plan, storage=None) == without
    assert plan.to_json_dict()["storage"] == vars(SD)
    assert without.to_json_dict()["storage"] is None
    assert "storage sd-ddr50" in str(plan)


def test_a_damaged_entry_is_refused() -> None:
    assert Medium.from_json(vars(SD)) == SD
    for wrong in (3, {}, vars(SD) | {"write_mb_s": 0.0}, vars(SD) | {"read_mb_s": float("inf")}):
        with pytest.raises(PlanError, match="'storage'"):
            Medium.from_json(wrong)


def test_the_command_line_refuses_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "x.plan"
    command = ["plan", "zoo:lenet5", "-o", str(output), "--batch", "8"]
    assert main([*command, "--board", "raspberrypi-5", "--storage", "floppy"]) == 2
    assert "it has sd-sdr104, nvme-gen2x1, nvme-gen3x1, usb3-ssd" in capsys.readouterr().err
    assert not output.exists()
