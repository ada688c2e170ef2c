"""What a newcomer meets first: `make help` and the README's first lines."""

from __future__ import annotations

import re
import subprocess

from tests.arch import sources

README_HEAD_LINES = 20


def test_make_help_explains_every_target() -> None:
    text = sources.text(sources.Path("Makefile"))
    targets = re.search(r"^\.PHONY:((?:.*\\\n)*.*)$", text, flags=re.MULTILINE)
    assert targets
    listed = set(targets[1].replace("\\", " ").split())
    rules = set(re.findall(r"^([a-z][\w-]*):(?!=)", text, flags=re.MULTILINE))
    assert rules == listed
    done = subprocess.run(
        ["make", "help"], cwd=sources.ROOT, capture_output=True, text=True, check=True
    )
    explained = {line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1}
    assert explained == listed


def test_readme_begins_with_the_two_commands_and_links_the_documents() -> None:
    text = sources.text(sources.Path("README.md"))
    head = "\n".join(text.splitlines()[:README_HEAD_LINES])
    assert "make demo " in head
    assert "make test " in head
    assert "`make help`" in text
    for document in ("boards", "plan-format", "checkpoint-format"):
        assert f"(docs/{document}.md)" in text


def test_every_document_is_linked_and_every_link_leads_somewhere() -> None:
    documents = sources.under("docs", ".md")
    linked = set()
    for page in (sources.Path("README.md"), sources.Path("CONTRIBUTING.md"), *documents):
        for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", sources.text(page)):
            target = (sources.ROOT / page.parent / link).resolve()
            assert target.exists(), f"{page}: {link}"
            linked.add(target)
    assert {(sources.ROOT / d).resolve() for d in documents} <= linked


def test_contributing_names_files_that_exist() -> None:
    """Paths in back quotes are files or folders; NAME and ID stand for new ones."""
    text = sources.text(sources.Path("CONTRIBUTING.md"))
    for name in re.findall(r"`((?:armtrain|kernels|tests|scripts|docs|boards)/[\w./]*)`", text):
        if "NAME" not in name:
            assert (sources.ROOT / name).exists(), name
    for title in (
        "A layer (op)",
        "A kernel variant (level)",
        "A board",
        "A verb of the command line",
    ):
        assert f"\n### {title}\n" in text


def test_commands_from_a_laptop_to_a_board_use_what_they_built() -> None:
    """The laptop has no armtrain but the one of .venv, which `make ext` puts there."""
    text = sources.text(sources.Path("docs/cross.md"))
    for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL):
        lines = [line for line in block.splitlines() if "armtrain plan" in line]
        for line in lines:
            assert line.startswith(".venv/bin/armtrain plan "), line
            assert re.search(r"^make .*\bext\b", block.split(line)[0], flags=re.MULTILINE)
