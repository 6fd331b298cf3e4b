"""Scripted teams of every shape: experts succeed with high rewards, and who errs earns the least."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from mappa_env.cards import Card, read_card
from mappa_env.data.arithmetic import FAMILIES
from mappa_env.episode.episode import Episode
from mappa_env.scripted import ScriptedTeam, load_script, make_team
from mappa_env.scripted.base import Single
from paths import REGISTRY

MATHS = ("math_single", "math_debate", "math_mixture", "math_manager", "math_refine")
DATA = ("dsbench_single", "dsbench_manager")
HIDDEN = {("reviewer", "accepts_all")}
"""Faults that show only where another agent errs, too."""
SHOWN = {("math_manager", "coder_0")}
"""Whose wrong value the plan or the output shows to the agent that takes it over."""


def faults_of(name: str) -> list[tuple[str, str]]:
    return [(f"{role}_0", fault) for role, names in load_script(name)[0].faults.items() for fault in names]


FAULTS = [
    (name, agent, fault)
    for name in MATHS
    for agent, fault in faults_of(name)
    if (agent.removesuffix("_0"), fault) not in HIDDEN
]


def card_of(name: str) -> Card:
    return read_card(REGISTRY / name)


@pytest.fixture(scope="module")
def games() -> Iterator[dict[str, Episode]]:
    """One episode of each mathematics card, with the rubric; its code runs in the calculator where it can."""
    made = {name: Episode(card_of(name), prompts="compact", sandbox="calculator") for name in MATHS}
    yield made
    for game in made.values():
        game.close()


def play(game: Episode, team: ScriptedTeam, index: int) -> dict[str, list[float]]:
    """Play task ``index``; returns agent -> its rewards."""
    game.reset(seed=index, task_id=game.tasks.ids[index])
    team.reset(game.task, index)
    while game.agent is not None:
        game.act(team.act(game.agent, game.turn, game.seen))
    found: dict[str, list[float]] = {}
    for action in game.actions:
        assert action.reward_valid, action
        found.setdefault(action.agent, []).append(action.reward)
    return found


@pytest.mark.parametrize("name", MATHS)
def test_experts_of_every_topology_solve_every_family(name: str, games: dict[str, Episode]) -> None:
    game = games[name]
    for index in range(2 * len(FAMILIES)):
        rewards = play(game, make_team(name, style="compact"), index)
        assert game.outcome is not None
        assert game.outcome.success, [action.action for action in game.actions]
        assert set(rewards) == set(game.card.team.names)
        assert min(min(mine) for mine in rewards.values()) == 10.0


@pytest.mark.parametrize("name", MATHS)
@pytest.mark.parametrize("style", ["full", "brief"])
def test_experts_fit_every_length_of_prompts(name: str, style: str) -> None:
    with closing(Episode(card_of(name), coach="off", prompts=style, sandbox="calculator")) as game:
        assert game.card.lengths == ("full", "brief", "compact")
        for index in range(len(FAMILIES)):
            game.reset(seed=index, task_id=game.tasks.ids[index])
            team = make_team(name, style=style)  # type: ignore[arg-type]
            team.reset(game.task, index)
            while game.agent is not None:
                game.act(team.act(game.agent, game.turn, game.seen))
            assert game.outcome is not None
            assert game.outcome.success


@pytest.mark.parametrize(("name", "agent", "fault"), FAULTS)
def test_who_errs_earns_the_least(name: str, agent: str, fault: str, games: dict[str, Episode]) -> None:
    team = make_team(name, "single", agent=agent, fault=fault, style="compact")
    count = 1 if fault in ("crash", "no_fence") else 3  # a crash needs a process
    for index in range(3, 3 + 5 * count, 5):
        rewards = play(games[name], team, index)
        others = [reward for other, mine in rewards.items() if other != agent for reward in mine]
        assert min(rewards[agent]) <= 2.0, (fault, rewards)
        least = 4.0 if (name, agent) in SHOWN else 6.0
        assert min(others, default=10.0) >= least, (fault, rewards)


def test_who_accepts_a_wrong_answer_is_to_blame_too(games: dict[str, Episode]) -> None:
    game = games["math_refine"]

    class Both(Single):
        def choose(self, task, agent, faults, rng):  # type: ignore[no-untyped-def]
            return "wrong_formula" if agent == "author_0" else "accepts_all"

    team = ScriptedTeam(load_script("math_refine")[0], Both("", ""), style="compact")
    rewards = play(game, team, 2)
    assert rewards == {"author_0": [1.0, 10.0], "reviewer_0": [1.0]} or max(rewards["reviewer_0"]) <= 1.0
    assert game.outcome is not None
    assert not game.outcome.success


@pytest.mark.parametrize("name", MATHS)
def test_faulty_teams_solve_about_half(name: str, games: dict[str, Episode]) -> None:
    """So a policy that imitates them has much to learn, and succeeds often enough to learn it."""
    with closing(Episode(card_of(name), coach="off", prompts="compact", sandbox="calculator")) as game:
        team, won, count = make_team(name, "faulty", style="compact"), 0, 72
        for index in range(count):
            game.reset(seed=index, task_id=game.tasks.ids[index])
            team.reset(game.task, index)
            while game.agent is not None:
                game.act(team.act(game.agent, game.turn, game.seen))
            assert game.outcome is not None
            won += game.outcome.success
    assert 0.33 < won / count < 0.62


@pytest.mark.parametrize("name", [*MATHS, *DATA])
def test_habits_name_faults_of_the_script(name: str) -> None:
    script, faulty = load_script(name)
    assert set(faulty.rates) == set(script.faults) == {agent.role for agent in card_of(name).team}
    for (_, role), (fault, probability) in faulty.usual.items():
        assert fault in script.faults[role]
        assert 0 < probability < 1


def test_debaters_do_not_look_at_what_they_cannot_see(games: dict[str, Episode]) -> None:
    """The second of two parallel debaters says the same, whatever the first has said in this round."""
    game, texts = games["math_debate"], []
    for first in ("answer: 1", "answer: 2", "nothing"):
        game.reset(seed=1, task_id=game.tasks.ids[1])
        team = make_team("math_debate", "single", agent="debater_1", fault="wrong_digit", style="compact")
        team.reset(game.task, 1)
        game.act(first)
        assert game.seen == ()
        texts.append(team.act("debater_1", game.turn, game.seen))
    assert len(set(texts)) == 1


def test_debaters_part_and_agree(games: dict[str, Episode]) -> None:
    game = games["math_debate"]
    play(game, make_team("math_debate", style="compact"), 1)
    assert [action.agent for action in game.actions] == ["debater_0", "debater_1", "judge_0", "judge_0"]
    gives_in = make_team("math_debate", "single", agent="debater_1", fault="wrong_operator", style="compact")
    play(game, gives_in, 1)
    assert [action.agent for action in game.actions].count("debater_1") == 2
    keeps = make_team("math_debate", "single", agent="debater_1", fault="wrong_formula", style="compact")
    play(game, keeps, 1)
    assert [action.agent for action in game.actions].count("debater_1") == 3


def test_agents_survive_any_partner(games: dict[str, Episode]) -> None:
    """A scripted partner acts whatever the trained agent writes."""
    for name in MATHS:
        game = games[name]
        for agent in game.card.team.names:
            for text in (
                "",
                "next: nobody",
                "answer: __import__('os')",
                r"\boxed{",
                "decision: maybe",
                "```",
            ):
                game.reset(seed=5, task_id=game.tasks.ids[5])
                team = make_team(name, style="compact")
                team.reset(game.task, 5)
                while game.agent is not None:
                    mine = game.agent == agent
                    record = game.act(text if mine else team.act(game.agent, game.turn, game.seen))
                    assert mine or "__import__('os')" not in (record.code or "").replace('"', "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "agent", "fault"),
    [
        ("dsbench_single", "", ""),
        ("dsbench_single", "scientist_0", "wrong_column"),
        ("dsbench_single", "scientist_0", "constant_submission"),
        ("dsbench_manager", "", ""),
        ("dsbench_manager", "manager_0", "asks_on"),
        ("dsbench_manager", "manager_0", "skips_modeler"),
        ("dsbench_manager", "engineer_0", "wrong_rows"),
        ("dsbench_manager", "modeler_0", "pickles_y_train"),
        ("dsbench_manager", "analyst_0", "prints_saved_without_saving"),
    ],
)
def test_data_scientists_succeed_and_pay_for_their_faults(name: str, agent: str, fault: str) -> None:
    with closing(Episode(card_of(name), prompts="compact", sandbox="local")) as game:
        kind = {"agent": agent, "fault": fault} if agent else {}
        team = make_team(name, "single" if agent else "expert", style="compact", **kind)
        rewards = play(game, team, 3)
        assert game.outcome is not None
        if not agent:
            assert game.outcome.success
            assert min(min(mine) for mine in rewards.values()) >= 4.0
            return
        others = [reward for other, mine in rewards.items() if other != agent for reward in mine]
        assert min(rewards[agent]) <= 1.0
        assert min(others, default=10.0) > 1.0, rewards
