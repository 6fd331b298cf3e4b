"""Coaches of the user's own: a file, a package's entry point, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.coach import COACHES, BaseCoach, make_coach
from mappa_env.errors import CoachStopped, OptionError
from mappa_env.registration import find_card
from mappa_env.types import Evidence, Verdict
from paths import ROOT

DOCS = ROOT / "docs" / "coach.md"


@pytest.fixture
def card() -> Card:
    return find_card("mathchat")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The documented example, as it stands in the docs."""
    text = DOCS.read_text(encoding="utf-8").partition("## A coach of your own")[2]
    example = text.partition("```python\n")[2].partition("```")[0]
    assert len(example.strip().splitlines()) <= 16
    path = tmp_path / "mine.py"
    path.write_text(example, encoding="utf-8")
    return path


@pytest.mark.parametrize("judging", ["blocking", "deferred"])
def test_the_documented_example_judges(mine: Path, judging: str) -> None:
    coach = {"name": f"{mine}:Brief", "limit": 10}
    env: Any = gym.make("mappa/MathChat-v0", coach=coach, judging=judging, sandbox="calculator")
    play(env)
    verdicts = [action.verdict for action in team_env(env).trajectory.actions]
    assert {verdict.score for verdict in verdicts} <= {10.0, 2.0}
    assert {verdict.coach for verdict in verdicts} == {"brief"}
    env.close()


def test_environments_share_the_class_of_a_file_until_it_changes(mine: Path, card: Card) -> None:
    first, second = (make_coach(f"{mine}:Brief", card) for _ in range(2))
    assert type(first) is type(second)
    mine.write_text(mine.read_text().replace('"brief"', '"terse"') + "# longer\n")
    assert make_coach(f"{mine}:Brief", card).name == "terse"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nowhere.py:Brief", "'nowhere.py' does not exist"),
        ("{mine}:Breif", "Did you mean 'Brief'"),
        ({"name": "{mine}:Brief", "limt": 3}, "limt"),
        ("{mine}:Verdict", "'score'"),
        (
            "{mine}:NoCoach",
            "judge(), judge_many(), judge_later(), blame(), wait(), close(), name, deterministic, corrects, "
            "labels, of the right signature or type",
        ),
        ("{mine}:NotFresh", "fresh=False"),
        ("{mine}:NoJudge", "is not a coach: judge() is missing"),
        ("{mine}:NUMBER", "neither a class nor a function"),
        ("{mine}:NoCard", "NoCard' must take the card first, then its options."),
        ("rubirc", "Did you mean 'rubric'"),
    ],
)
def test_what_is_not_a_coach_is_refused_when_made(mine: Path, card: Card, spec: Any, says: str) -> None:
    with mine.open("a") as file:
        file.write("class NoJudge(BaseCoach): ...\n")
        file.write("NUMBER = 3\nclass NoCoach:\n    def __init__(self, card): ...\n")
        file.write("class NoCard(BaseCoach):\n    def __init__(self): ...\n")
        file.write("class NotFresh(BaseCoach):\n    def judge(self, evidence): ...\n")
    if isinstance(spec, str):
        spec = {"name": spec}
    spec = {**spec, "name": spec["name"].replace("{mine}", str(mine))}
    with pytest.raises(OptionError, match=re.escape(says)):
        make_coach(spec, card)


def test_a_package_brings_a_coach_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: Card
) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{COACHES.group}]\ntheirs = theirs:Kind\nbroken = theirs:Nothing\n"
    )
    (tmp_path / "theirs.py").write_text(
        "from mappa_env.coach import BaseCoach\nclass Kind(BaseCoach):\n    name = 'theirs'\n"
        "    def judge(self, evidence, *, fresh=False): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert {"broken", "theirs"} < set(COACHES.names())
    assert make_coach("theirs", card).name == "theirs"
    with pytest.raises(OptionError, match="Nothing"):
        make_coach("broken", card)
    with pytest.raises(OptionError, match="theirs"):
        make_coach("nobody", card)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Verdict("ok", 70.0), "it must be 0-10"),
        (Verdict("ok", float("nan")), "it must be 0-10"),
        (Verdict("ok", None), "score None"),
        (Verdict("abstain", 5.0), "'ok' and 'suspect' need a score"),
        (7.5, "must return a Verdict"),
    ],
)
@pytest.mark.parametrize("judging", ["blocking", "deferred"])
def test_an_invalid_verdict_ends_the_run(answer: Any, says: str, judging: str) -> None:
    class Wrong(BaseCoach):
        def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
            return answer  # type: ignore[no-any-return]

    env: Any = gym.make("mappa/MathChat-v0", coach="off", judging=judging, sandbox="calculator")
    team_env(env).episode._coach = Wrong(team_env(env).card)
    with pytest.raises(CoachStopped, match=says):
        play(env)
    env.close()


def play(env: Any) -> None:
    env.reset(seed=0)
    while not team_env(env).episode.over:
        env.step("plan: 2 + 2" if team_env(env).episode.turn == 0 else "2 + 2")
