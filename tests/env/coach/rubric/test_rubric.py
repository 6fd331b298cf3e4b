"""The rubric as a whole: its culprits of real episodes, and which rubrics are refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mappa_env.cards import Card
from mappa_env.coach import OffCoach, make_coach
from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.episode.episode import Episode
from mappa_env.errors import CardError, OptionError
from mappa_env.scripted import load_script, make_team
from paths import REGISTRY
from rubric_play import CARDS, SUM, Play


@pytest.mark.parametrize(
    ("role", "fault"),
    [(role, f) for role, faults in load_script("mathchat")[0].faults.items() for f in faults],
)
def test_culprits_of_real_episodes(role: str, fault: str) -> None:
    episode = Episode(CARDS["mathchat"], sandbox="calculator", prompts="compact")
    team = make_team("mathchat", "single", style="compact", agent=f"{role}_0", fault=fault)
    for seed in range(4):
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
        assert not episode.trajectory.outcome.success
        assert culprit(episode.actions) == f"{role}_0"
    episode.close()


def test_experts_earn_all_and_nobody_is_blamed() -> None:
    episode = Episode(CARDS["mathchat"], sandbox="calculator", prompts="compact")
    team = make_team("mathchat", "expert", style="compact")
    for seed in range(10):
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
        assert [a.verdict.score for a in episode.actions] == [10.0] * 4
        assert culprit(episode.actions) is None
    episode.close()


def test_other_names_are_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean 'rubric'"):
        make_coach("rubrik", CARDS["mathchat"])
    with pytest.raises(OptionError, match="takes no options"):
        make_coach({"name": "off", "level": 3}, CARDS["mathchat"])
    with pytest.raises(OptionError, match="has no option 'level'; its options are corrector, labels"):
        make_coach({"name": "rubric", "level": 3}, CARDS["mathchat"])
    with pytest.raises(OptionError, match="corrector='short' is unknown"):
        make_coach({"name": "rubric", "corrector": "short"}, CARDS["mathchat"])
    with pytest.raises(OptionError, match="has no rubric"):
        make_coach("rubric", dataclasses.replace(CARDS["mathchat"], rubric=None))
    assert isinstance(make_coach("off", CARDS["mathchat"]), OffCoach)


def test_without_labels_the_truth_has_no_part() -> None:
    """A wrong plan is a plan; with the truth it is a wrong one."""
    blind = Episode(CARDS["mathchat"], coach={"name": "rubric", "labels": False}, sandbox="calculator")
    seeing = Episode(CARDS["mathchat"], coach="rubric", sandbox="calculator")
    for episode, score in ((blind, 10.0), (seeing, 1.0)):
        episode.reset(seed=0)
        assert episode.act("plan: 1 + 1").verdict.score == score
        episode.close()
    with pytest.raises(OptionError, match="labels='no'"):
        make_coach({"name": "rubric", "labels": "no"}, CARDS["mathchat"])


def card_with(tmp_path: Path, text: str) -> Card:
    path = tmp_path / "rubric.yaml"
    path.write_text(text, encoding="utf-8")
    return dataclasses.replace(CARDS["mathchat"], rubric=path)


GOOD = (REGISTRY / "mathchat" / "rubric.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "has version 2, but"),
        ("version: 1", "version: 1\nextra: 3", "extra"),
        ("version: 1", "version: [", "not valid YAML"),
        ("check: math_plan", "check: math_plann", "Did you mean 'math_plan'"),
        ("weight: 1}", "weight: 1, options: {wrongg: 0.2}}", "Did you mean 'wrong'"),
        ("weight: 1}", "weight: 1, options: {wrong: 2}}", "between 0 and 1, found 2"),
        ("weight: 1", "weight: -1", "greater than or equal to 0"),
        ("  solver:", "  solvr:", "no rubric for the role 'solver'"),
        ("  coder:", "    caps: [{criterion: plann, below: 1, at_most: 2}]\n  coder:", "Did you mean 'plan'"),
        ("criteria:", "criterias:", "criteria"),
    ],
)
def test_malformed_rubrics_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(CardError, match=message):
        RubricCoach(card_with(tmp_path, GOOD.replace(old, new, 1)))


def test_caps_lower_a_score_and_judging_repeats(tmp_path: Path) -> None:
    capped = GOOD.replace("  coder:", "    caps: [{criterion: plan, below: 0.5, at_most: 0.7}]\n  coder:")
    play = Play("mathchat", SUM)
    play.coach = RubricCoach(card_with(tmp_path, capped))
    assert play.act("solver_0", "plan: 3*4").score == 0.7
    assert play.act("solver_0", "plan: 3*4").score == 0.7
    assert play.act("solver_0", "plan: 3*4+2").score == 10
