"""``mappa-env new``: copies of shipped cards that stand on their own."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from mappa_env.cards import read_card
from mappa_env.cli import main, parser
from mappa_env.commands.new import SETTINGS, TOPOLOGIES
from mappa_env.commands.play import run as play
from mappa_env.episode.episode import Episode
from mappa_env.registration import register_card
from mappa_env.scripted import make_team
from paths import REGISTRY, ROOT


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_copy_is_whole_and_equal_but_for_its_names(topology: str, here: Path) -> None:
    assert main(["new", "my_team", "--from", topology]) == 0
    made, shipped = read_card(here / "my_team"), read_card(REGISTRY / TOPOLOGIES[topology])
    assert (made.id, made.title) == ("MyTeam-v0", "My team")
    for key in ("team", "order", "loader", "loader_options", "grader", "grader_options", "truth"):
        assert getattr(made, key) == getattr(shipped, key), key
    for key in ("scripted", "probe", "limits", "prompts", "lengths", "summary", "answerer"):
        assert getattr(made, key) == getattr(shipped, key), key
    assert all(here in path.parents for path in made.prompt_files.values()), "a prompt is not in the copy"
    assert made.rubric == here / "my_team" / "rubric.yaml"
    assert "extends" not in yaml.safe_load((here / "my_team" / "card.yaml").read_text())
    readme = (here / "my_team" / "README.md").read_text()
    assert readme.startswith("# My team\n")
    assert f"mappa/{shipped.id}" not in readme
    if shipped.coach is not None:
        from mappa_env.coach.llm.prompt import Prompts

        assert Prompts(made).template == Prompts(shipped).template


def test_a_copy_plays_and_its_experts_succeed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "my_team", "--from", "debate"]) == 0
    with closing(Episode(read_card(here / "my_team"), prompts="compact", sandbox="calculator")) as game:
        game.reset(seed=0)
        team = make_team(str(game.card.scripted), style="compact")
        team.reset(game.task, 0)
        while game.agent is not None:
            game.act(team.act(game.agent, game.turn, game.seen))
        assert game.outcome is not None
        assert game.outcome.success
    capsys.readouterr()
    assert main(["play", "./my_team", "--team", "faulty", "--sandbox", "calculator"]) == 0
    assert "MyTeam-v0" in capsys.readouterr().out


def test_the_printed_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "teams/my_team", "--from", "data-manager"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line.split()[:2] for line in lines] == [
        ["mappa-env", "check"],
        ["mappa-env", "play"],
        ["mappa-rl", "train"],
    ]
    for line in lines[:2]:
        args = parser().parse(shlex.split(line)[1:])
        assert args.env == "./teams/my_team"
    assert read_card(args.env).id == "MyTeam-v0"
    assert (args.run, args.team) == (play, "faulty")
    room = " ".join(SETTINGS["data-manager"])
    assert lines[2] == f"mappa-rl train demo_dsbench env.id=./teams/my_team {room} --dry-run"


def test_an_existing_folder_stays_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "taken").mkdir()
    (here / "dangling").symlink_to(here / "nowhere")
    (here / "file").write_text("mine")
    for name in ("taken", "dangling", "file"):
        assert main(["new", name, "--from", "debate"]) == 2
        assert "exists: name a folder that does not exist yet" in capsys.readouterr().err
    assert list((here / "taken").iterdir()) == []
    assert (here / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["new", "my_team", "--from", "debat"],
            "choose from single, chain, debate, mixture, manager, refine",
        ),
        (["new", "my_team", "--from", "debat"], "Did you mean 'debate'"),
        (["new", "my_team"], "the following arguments are required: --from"),
        (["new", "2teams", "--from", "debate"], "'2teams' gives no id"),
        (["new", "..", "--from", "debate"], "exists"),
        (["new", "my team", "--from", "debate"], "'my team' gives no id"),
        (["new", "équipe", "--from", "debate"], "gives no id"),
        (["new", "math_debate", "--from", "chain"], "the id mappa/MathDebate-v0 is taken"),
    ],
)
def test_what_cannot_be_made_is_refused(
    args: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert words in capsys.readouterr().err
    assert list(here.iterdir()) == [], "something was left behind"


def test_a_place_that_cannot_be_written_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("")
    assert main(["new", "file/my_team", "--from", "debate"]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["null", "yes", "on-off", "a", "X1_y"])
def test_names_that_mean_something_in_yaml(name: str, here: Path) -> None:
    assert main(["new", name, "--from", "single"]) == 0
    assert register_card(here / name).startswith("mappa/")


def test_the_docs_list_every_topology() -> None:
    page = (ROOT / "docs" / "cards.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| `mappa/([A-Za-z]+-v0)`", page, re.MULTILINE)
    assert dict(rows) == {name: read_card(REGISTRY / folder).id for name, folder in TOPOLOGIES.items()}
