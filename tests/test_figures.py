"""Published figures say what they were measured with, and whether that has changed since."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mappa_rl import load_config
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import figures

MEASUREMENTS = re.compile(r"^\|---|python benchmarks/", re.MULTILINE)
NOT_MEASURED = ("What is held out",)


def test_every_section_with_measurements_is_listed() -> None:
    listed = {(each.page, each.section) for each in figures.published()}
    found = {
        (page.name, heading)
        for page in sorted(figures.RESULTS.glob("*.md"))
        for heading, text in figures.sections(page.name).items()
        if MEASUREMENTS.search(text) and heading not in NOT_MEASURED
    }
    assert found <= listed, f"add to docs/results/figures.yaml: {found - listed}"


@pytest.mark.parametrize("each", figures.published(), ids=lambda each: f"{each.page}-{each.section}")
def test_figures_are_fresh_or_say_that_they_are_stale(each: figures.Figures) -> None:
    assert not list(each.problems())


def test_a_changed_recipe_a_changed_default_and_a_changed_file_make_figures_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config("demo").with_overrides(["run.seed=7", "out=elsewhere"])
    (tmp_path / "same.yaml").write_text(config.dump())
    (tmp_path / "other.yaml").write_text(config.with_overrides(["optim.lr=5e-4"]).dump())
    (tmp_path / "default.yaml").write_text(config.with_overrides(["rollout.temperature=0.5"]).dump())
    monkeypatch.setattr(figures, "RESULTS", tmp_path)

    def changes(name: str, **inputs: str) -> list[str]:
        return list(figures.Figures("page.md", "S", "abc", {"demo": name}, inputs).changes())

    assert changes("same.yaml") == []
    assert changes("other.yaml") == ["demo: optim.lr is 0.0003, was 0.0005"]
    assert changes("default.yaml") == ["demo: rollout.temperature is 1.0, was 0.5"]
    assert changes("same.yaml", Makefile="0123") == [
        f"Makefile is {figures.digest(ROOT / 'Makefile')}, was 0123"
    ]
    assert changes("same.yaml", gone="0123") == ["gone is missing, was 0123"]


def test_stale_figures_are_named_unless_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    (tmp_path / "page.md").write_text("# Page\n\n## One\n\nText.\n\n## Two\n\nMore.\n")
    silent = figures.Figures("page.md", "One", "abc", {}, {"gone": "0123"})
    figures.write(silent)
    assert [problem.split(":")[0] for problem in silent.problems()] == [
        "page.md, 'One' is stale and does not say so"
    ]
    said = figures.Figures("page.md", "One", "abc", {}, {"gone": "0123"}, stale="the file went")
    assert len(list(said.problems())) == 1
    for _ in range(2):  # the second time replaces the line
        figures.write(said)
        assert not list(said.problems())
    text = (tmp_path / "page.md").read_text()
    assert text.count("Stale since the file went") == 1
    assert "Measured at" not in text
    assert text.endswith("Text.\n\n## Two\n\nMore.\n")


def test_comments_and_docstrings_are_no_changes() -> None:
    assert figures.code('"""One."""\n\ndef f():\n    """Two."""\n    return 1  # three\n') == figures.code(
        "def f():\n    return 1\n"
    )
    assert figures.code("def f():\n    return 1\n") != figures.code("def f():\n    return 2\n")
