"""The suites of other projects are read as of a commit, and none is silently empty."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import math_agreement
import math_suites

TEST = """
from own import grade

@pytest.mark.parametrize("gold, pred, expected", [("$1/2$", "$0.5$", True), ("$12$", "$13$", False)])
def test_grades(gold, pred, expected):
    assert grade(gold, pred) is expected
"""


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "test_own.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "own")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clones" / "any name"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return folder


def use(monkeypatch: pytest.MonkeyPatch, commit: str) -> None:
    source = math_suites.Source("own/own", commit, (("tests/test_*.py", "own"),))
    monkeypatch.setattr(math_suites, "SUITES", {"Own": source})
    monkeypatch.setattr(math_agreement, "SUITES", {"Own": source})


def test_the_pinned_commit_is_read_whatever_is_checked_out(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = commit(clone, TEST)
    commit(clone, "# own: nothing here any more")
    use(monkeypatch, pinned)
    (suite,) = math_suites.suites_in(clone.parent)
    assert {tuple(case) for case in suite.cases} == {(("1/2",), "0.5", True), (("12",), "13", False)}
    counts = math_agreement.judge(suite.cases, {"mappa": math_agreement.ours}, show=False)
    assert dict(counts) == {"pairs": 2}
    table = math_agreement.table({"Own": dict(counts) | {"left_out": 0}}, ["mappa"])
    assert f"[own/own@{pinned[:7]}](https://github.com/own/own/tree/{pinned}) | 2 | 0 | 0 | 0 |" in table


def test_an_empty_suite_and_a_missing_clone_end_the_run(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, commit(clone, "# own: nothing here"))
    with pytest.raises(SystemExit, match="Own: no pair"):
        list(math_suites.suites_in(clone.parent))
    use(monkeypatch, "0" * 40)
    with pytest.raises(SystemExit, match=r"git clone https://github.com/own/own"):
        list(math_suites.suites_in(clone.parent))
