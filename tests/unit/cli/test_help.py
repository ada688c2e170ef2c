"""Help is made from the tables in the code: nothing that a user may write is missing there."""

from __future__ import annotations

import pytest

from armtrain import zoo
from armtrain.cli.main import main
from armtrain.data.spec import FORMS, parse_spec
from armtrain.nn.losses import loss_names, parse_loss
from armtrain.optim.parse import optimizer_options, parse_optimizer


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help of a verb in one line."""
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_names_everything_that_may_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    planning = help_of("plan", capsys)
    for name in zoo.names():
        assert f"zoo:{name} " in planning
        assert f"zoo:{name} " in help_of("bench", capsys)
    for name in loss_names():
        assert name in planning
        assert parse_loss(name).text == name
    for word, items in optimizer_options().items():
        text = ",".join(f"{key}={str(value).lower()}" for key, value in items)
        assert f"{word} {text}" in planning
        assert parse_optimizer(f"{word}:{text}") == parse_optimizer(word)
    for verb in ("train", "evaluate", "predict", "convert-data"):
        text = help_of(verb, capsys)
        for form, meaning in FORMS:
            assert f"{form} {meaning}" in text


@pytest.mark.parametrize("form", [form for form, _ in FORMS])
def test_every_form_of_data_is_one(form: str) -> None:
    examples = (("[:PART]", ":test"), ("[samples=N,seed=S]", "samples=3,seed=4"))
    for shown in (True, False):
        text = form
        for placeholder, example in examples:
            text = text.replace(placeholder, example if shown else "")
        assert text.startswith(parse_spec(text).kind)


@pytest.mark.parametrize("verb", ["train", "demo"])
def test_json_lines_are_announced(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "print only JSON: one object a line" in help_of(verb, capsys)
