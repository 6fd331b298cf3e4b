"""docs/first_training.md and README: a card folder of one's own, from the dry run to the trained team."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chat_families import FAMILIES
from mappa_rl.cli import main
from model_folders import model_folder
from paths import ROOT

PAGES = ("docs/first_training.md", "README.md")
SMALL = [
    "run.steps=1",
    "run.tensorboard=false",
    "rollout.episodes_per_step=2",
    "rollout.max_new_tokens=4",
    "env.sandbox=calculator",
    "eval.episodes=2",
    "eval.calibration_temperatures=[]",
]


def commands() -> list[list[str]]:
    """Every ``mappa-rl`` command in a shell block of the pages."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("mappa-rl ")]
    return found


@pytest.fixture
def team4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The card of the guide, in the current folder."""
    monkeypatch.chdir(tmp_path)
    card = tmp_path / "team4" / "card.yaml"
    card.parent.mkdir()
    card.write_text("extends: mathchat\nid: Team4-v0\ntitle: My team\n")
    return card


def test_every_dry_run_of_the_pages_finds_what_the_pages_say(
    team4: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [words for words in commands() if "--dry-run" in words]
    assert len(shown) >= 4
    for words in shown:
        downloads = [word for word in words if word.startswith("model.kind=")]
        assert main([*words, "--no-rehearsal", "env.sandbox=calculator"]) == (2 if downloads else 0), words
        said = capsys.readouterr().out
        assert ("problems (1):\n  model: model.kind=" if downloads else "problems: none") in said, said


@pytest.mark.slow
def test_a_card_folder_without_a_scripted_team_trains_from_a_model_folder(
    team4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    team4.write_text(team4.read_text().replace("Team4", "Bare") + "scripted: ''\n")
    assert main(["train", "demo", "env.id=./team4", "out=none", *SMALL]) == 2
    assert "the card Bare-v0 has no scripted team to imitate" in capsys.readouterr().err
    base = model_folder(tmp_path / "base", sorted(FAMILIES)[0])
    model = [f"model.kind={base}", "warmstart.steps=0", "rollout.max_context=400"]
    assert main(["train", "demo", "env.id=./team4", "out=run", *model, *SMALL]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "run"
    assert main(["eval", "run", "eval.episodes=4"]) == 0
