"""docs/extending.md: the card of another kind is checked, played and trained as the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mappa_env.cli import main as env_main
from mappa_env.plugins import TRUST
from mappa_env.testing import check_environment
from mappa_rl.cli import main
from paths import ROOT

FOLDER = ROOT / "examples" / "unit_tests"
SMALL = [
    "run.steps=1",
    "run.tensorboard=false",
    "warmstart.episodes=6",
    "warmstart.steps=2",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=2",
    "rollout.max_new_tokens=8",
    "eval.episodes=2",
    "eval.calibration_temperatures=[]",
]


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUST, str(FOLDER))
    monkeypatch.chdir(ROOT)


def commands() -> list[list[str]]:
    """The commands of the section's last shell block, without ``export``."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = page.partition("\n## A task of another kind\n")[2].partition("\n## ")[0]
    block = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[-1]
    return [shlex.split(line) for line in block.splitlines() if line.startswith("mappa-")]


def test_the_card_conforms() -> None:
    check_environment(FOLDER, sandbox="null").raise_on_failure()


@pytest.mark.slow
def test_every_command_of_the_page_works(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checked, played, tried = commands()
    assert checked == ["mappa-env", "check", "examples/unit_tests"]  # with real code it takes a while
    assert env_main(played[1:]) == 0
    assert "hidden tests pass" in capsys.readouterr().out
    assert main([*tried[1:], "--no-rehearsal"]) == 0
    assert "problems: none" in capsys.readouterr().out
    train = [*(word for word in tried[1:] if word != "--dry-run"), *SMALL, f"out={tmp_path}/run"]
    assert main(train) == 0
    assert (tmp_path / "run" / "report.html").is_file()
