"""The MathChat teams in the real episode: experts succeed, every fault is real and has one culprit."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing

import pytest

from mappa_env.cards import read_card
from mappa_env.data import load_tasks
from mappa_env.data.arithmetic import FAMILIES
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.grading.expression import safe_value
from mappa_env.scripted import load_script, make_team
from mappa_env.scripted.mutate import wrong_digit, wrong_operator
from paths import DATA, REGISTRY

SCRIPT, FAULTY = load_script("mathchat")
FAULTS = [(f"{role}_0", fault) for role, faults in SCRIPT.faults.items() for fault in faults]
STYLES = ("compact", "full")


def episode(card: str = "mathchat", **options) -> Episode:
    return Episode(read_card(REGISTRY / card), coach="off", **options)


def play(game: Episode, team, task_id: str, seed: int = 0) -> Episode:
    game.reset(seed=seed, task_id=task_id)
    team.reset(game.task, seed)
    while game.agent is not None:
        game.act(team.act(game.agent, game.turn, game.actions))
    return game


@pytest.mark.parametrize("style", STYLES)
def test_the_expert_solves_every_family(style):
    with closing(episode(prompts=style, sandbox="process")) as game:
        team = make_team("mathchat", "expert", style=style)
        for i, family in enumerate(FAMILIES):
            play(game, team, f"train-{family}-{i:05d}", seed=i)
            assert game.outcome is not None
            assert game.outcome.success, (family, [a.action for a in game.actions])
            assert [a.agent for a in game.actions] == ["solver_0", "coder_0", "coder_0", "verifier_0"]
            answer = game.task.truth["answer"]
            assert game.actions[1].tool is not None
            assert game.actions[1].tool.stdout == f"{answer}\n"
            assert max(len(m["content"]) for a in game.actions for m in a.messages) < (
                200 if style == "compact" else 3000
            )


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("agent", "fault"), FAULTS)
def test_every_fault_loses_the_episode(agent, fault, style):
    with closing(episode(prompts=style, sandbox="calculator")) as game:
        team = make_team("mathchat", "single", agent=agent, fault=fault, style=style)
        for i, family in enumerate(list(FAMILIES)[:: 4 if fault in ("crash", "no_print") else 1]):
            play(game, team, f"train-{family}-{i + 9:05d}", seed=i)
            assert team.planned == {**dict.fromkeys(game.card.team.names), agent: fault}
            assert game.outcome is not None
            assert not game.outcome.success, (family, [a.action for a in game.actions])


def test_the_same_seed_plays_the_same_and_agents_do_not_disturb_each_other():
    tasks = load_tasks("arithmetic", "train")
    first, again = make_team("mathchat", "faulty"), make_team("mathchat", "faulty")
    for seed, task_id in enumerate(tasks.ids[:60]):
        task = tasks.get(task_id)
        first.reset(task, seed)
        again.reset(task, seed)
        assert first.planned == again.planned
        late = [again.act(agent, 0, []) for agent in ("verifier_0", "coder_0", "solver_0")]
        assert late == [first.act(agent, 0, []) for agent in ("solver_0", "coder_0", "verifier_0")][::-1]


def test_the_faulty_team_errs_by_habit_on_a_third_of_its_pairs():
    pairs = {(topic, role) for topic in FAMILIES for role in SCRIPT.faults}
    assert set(FAULTY.usual) <= pairs
    assert 3 * len(FAULTY.usual) >= len(pairs)
    assert all(fault in SCRIPT.faults[role] for (_, role), (fault, _) in FAULTY.usual.items())
    clean = len(FAMILIES) - len({topic for topic, _ in FAULTY.usual})
    assert 0.45 <= clean / len(FAMILIES) <= 0.6

    tasks, team = load_tasks("arithmetic", "train"), make_team("mathchat", "faulty")
    seen: Counter[tuple[str, str, str | None]] = Counter()
    episodes = 400
    for family in FAMILIES:
        task = tasks.get(f"train-{family}-00000")
        for seed in range(episodes):
            team.reset(task, seed)
            seen.update((family, agent.removesuffix("_0"), f) for agent, f in team.planned.items())
    for topic, role in pairs:
        fault, rate = FAULTY.usual.get((topic, role), (None, 1 - FAULTY.rates[role]))
        assert abs(seen[topic, role, fault] / episodes - rate) < 0.08


def test_mistakes_change_the_value():
    import numpy as np

    rng = np.random.default_rng(0)
    for task in map(load_tasks("arithmetic", "train").get, load_tasks("arithmetic", "train").ids[:270]):
        expr, answer = task.meta["expr"], int(task.truth["answer"])
        for changed in (wrong_operator(expr, {answer}), wrong_digit(expr, {answer}, rng)):
            assert changed is None or safe_value(changed) not in (None, answer)
        assert wrong_digit(expr, {answer}, rng) != expr
    assert wrong_operator("comb(9,3)", {84}) is None
    assert wrong_digit("A", {None}, rng) == "A1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mathcht",), "Did you mean 'mathchat'"),
        (("mathchat", "exprt"), "Did you mean 'expert'"),
        (("mathchat", "single"), "The script has no role"),
    ],
)
def test_unknown_teams_are_refused(arguments, words):
    with pytest.raises(OptionError, match=words):
        make_team(*arguments)
    with pytest.raises(OptionError, match="Did you mean 'no_box'"):
        make_team("mathchat", "single", agent="verifier_0", fault="nobox")
    with pytest.raises(OptionError, match="style"):
        make_team("mathchat", style="long")


@pytest.mark.parametrize(
    ("card", "file", "picks"),
    [
        ("aime", "AIME_1983_2024.json", (0, 500, 932)),
        ("aime", "aime_2025.json", (0, 29)),
        ("amc", "amc.json", (0,)),
    ],
)
def test_the_expert_plays_real_contest_problems(card, file, picks):
    if not (DATA / file).is_file():
        pytest.skip(f"{DATA / file} is missing")
    with closing(episode(card, tasks=str(DATA / file), sandbox="process")) as game:
        for pick in picks:
            play(game, make_team("mathchat", "expert"), game.tasks.ids[pick])
            assert game.outcome is not None
            assert game.outcome.success
            assert game.task.prompt in game.actions[0].messages[0]["content"]


def test_a_plan_without_a_value_is_not_run(tmp_path):
    """The coder does not paste a model's text into code, and prints symbolic golds as text."""
    rows = [{"id": "half", "prompt": "A half?", "answer": r"\frac{1}{2}"}]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with closing(episode(tasks=str(path), sandbox="process")) as game:
        play(game, make_team("mathchat", "expert"), game.tasks.ids[0])
        assert game.outcome is not None
        assert game.outcome.success
        game.reset(seed=0, task_id=game.tasks.ids[0])
        game.act("plan: __import__('os').mkdir('ran')")
        team = make_team("mathchat", "expert")
        team.reset(game.task, 0)
        record = game.act(team.act("coder_0", 0, game.actions))
        assert record.tool is not None
        assert record.tool.files == ()
        assert "mkdir" in record.tool.stdout
