"""Parameter groups are told by plans, their dumps and `inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.planfile.dump import text_dump
from armtrain.planfile.groups import param_groups

GROUPS = [{"params": "*.bias", "lr": 0.5, "weight_decay": 0.0}, {"params": "3.weight", "lr": 0.25}]
SGD = optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.01)


def plan(**options: Any) -> at.Plan:
    """Return a plan of two layers."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    given: dict[str, Any] = {"loss": nn.CrossEntropyLoss(), "optimizer": SGD} | options
    return at.plan(net, input_shape=(1, 2, 2), batch_size=2, **given)


def test_groups_are_read_from_the_steps() -> None:
    found = param_groups(plan(param_groups=GROUPS).program)
    told = [(g.params, g.options["lr"], g.options["weight_decay"]) for g in found]
    assert told == [
        (("1.weight",), 0.1, 0.01),
        (("1.bias", "3.bias"), 0.5, 0.0),
        (("3.weight",), 0.25, 0.01),
    ]
    assert {g.options["momentum"] for g in found} == {0.9}


@pytest.mark.parametrize("clip", [{}, {"clip_norm": 1.0}, {"clip_value": 1.0}], ids=repr)
def test_without_groups_nothing_is_said(clip: dict[str, float]) -> None:
    made = plan(**clip)
    (group,) = param_groups(made.program)
    assert group.params == ("1.weight", "1.bias", "3.weight", "3.bias")
    assert "parameter groups" not in str(made) + text_dump(made)


def test_summary_and_dump_tell_groups() -> None:
    made = plan(param_groups=GROUPS)
    line = "    sgd:lr=0.5,momentum=0.9,dampening=0.0,weight_decay=0.0,nesterov=0: 1.bias, 3.bias"
    for text in (str(made), text_dump(made)):
        assert "  3 parameter groups:\n" in text
        assert f"{line}\n" in text


def test_long_groups_are_cut_in_the_summary_alone() -> None:
    made = at.plan(
        nn.Sequential(*(nn.Linear(2, 2) for _ in range(6))),
        input_shape=(2,),
        batch_size=2,
        loss=nn.MSELoss(),
        optimizer=SGD,
        param_groups=[{"params": "*.bias", "lr": 1.0}],
    )
    assert ": 0.bias, 1.bias, 2.bias, 3.bias and 2 more\n" in str(made)
    assert ": 0.bias, 1.bias, 2.bias, 3.bias, 4.bias, 5.bias\n" in text_dump(made)


def test_a_start_of_the_state_is_an_option() -> None:
    made = plan(
        optimizer=optim.Adagrad(),
        param_groups=[{"params": "1.*", "initial_accumulator_value": 0.5}],
    )
    first, second = param_groups(made.program)
    assert first.options["initial_sum"] == 0.5
    assert "initial_sum" not in second.options


def test_inspect_tells_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(param_groups=GROUPS)
    made.save(tmp_path / "a.plan")
    assert main(["inspect", str(tmp_path / "a.plan"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["param_groups"]
    assert told == [g.to_json_dict() for g in param_groups(made.program)]
    assert told[1] == {
        "optimizer": "sgd",
        "lr": 0.5,
        "momentum": 0.9,
        "dampening": 0.0,
        "weight_decay": 0.0,
        "nesterov": 0,
        "params": ["1.bias", "3.bias"],
    }
    assert main(["inspect", str(tmp_path / "a.plan")]) == 0
    assert "3 parameter groups" in capsys.readouterr().out


def test_groups_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["plan", "zoo:mlp", "--batch", "2", "-o", str(tmp_path / "a.plan")]
    options = ["--optimizer", "adam:lr=0.1,beta1=0.8", "--param-group", "*.bias:lr=0.5,beta2=0.9"]
    assert main([*model, *options, "--param-group=1.weight"]) == 0, capsys.readouterr()
    found = param_groups(at.Plan.load(tmp_path / "a.plan").program)
    told = [(g.options["lr"], g.options["beta1"], g.options["beta2"]) for g in found]
    assert told == [(0.1, 0.8, 0.999), (0.5, 0.8, 0.9)]
    for wrong, message in (
        (
            "*.bias:rate=1",
            "--param-group: group '*.bias:rate=1': 'rate=1' is not an option of adam",
        ),
        ("*.bias:lr=-1", "lr needs a finite number"),
        (":lr=1", "needs a pattern of parameter names before ':'"),
        ("nope:lr=1", "'nope' fits no parameter"),
    ):
        assert main([*model, "--optimizer", "adam", "--param-group", wrong]) == 2
        assert message in capsys.readouterr().err
