"""Backward tracing: whose doing a failure is, from the record alone, and what a shaping makes of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from mappa_env.cards import read_card
from mappa_env.cli import main
from mappa_env.coach import make_coach
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import by_verdicts
from mappa_env.envs.team_env import TeamEnv
from mappa_env.episode.episode import Episode
from mappa_env.errors import EpisodeError, OptionError
from mappa_env.registration import shipped
from mappa_env.scripted import load_script, make_team
from mappa_env.shaping import make_shaping
from mappa_env.trace.record import TraceStore, read
from mappa_env.types import Attribution, Outcome, Trajectory, Verdict

CARDS = {name: read_card(folder) for name, folder in shipped().items()}
FAULTS = {
    name: [(f"{role}_0", fault) for role, faults in load_script(name)[0].faults.items() for fault in faults]
    for name in ("mathchat", "dsbench_sprint")
}


@pytest.fixture(scope="module")
def math() -> Iterator[Episode]:
    episode = Episode(CARDS["mathchat"], coach="off", sandbox="calculator", prompts="compact")
    yield episode
    episode.close()


@pytest.fixture(scope="module")
def tables() -> Iterator[Episode]:
    episode = Episode(CARDS["dsbench_sprint"], prompts="compact")
    yield episode
    episode.close()


def play(episode: Episode, agent: str = "", fault: str = "", *, seed: int = 0) -> Trajectory:
    """An episode in which ``agent`` commits ``fault``; by the expert where there is none."""
    kind = "single" if fault else "expert"
    team = make_team(str(episode.card.scripted), kind, style="compact", agent=agent, fault=fault)
    episode.reset(seed=seed)
    team.reset(episode.task, seed)
    return act(episode, (lambda: team.act(str(episode.agent), episode.turn, episode.actions)))


def act(episode: Episode, write: Any) -> Trajectory:
    while episode.agent is not None:
        episode.act(write())
    return episode.trajectory


def saying(episode: Episode, texts: Sequence[str], seed: int = 0) -> Trajectory:
    episode.reset(seed=seed)
    lines = iter(texts)
    return act(episode, lambda: next(lines))


def culprit(trajectory: Trajectory, name: str) -> tuple[str, int] | None:
    found = attribute(trajectory, CARDS[name])
    if found.culprit is None:
        return None
    record = trajectory.actions[found.culprit]
    return record.agent, record.turn


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "fault"), FAULTS["mathchat"])
def test_numbers_lead_to_the_culprit_without_truth_or_coach(math: Episode, agent: str, fault: str) -> None:
    failed = play(math, agent, fault, seed=3)
    blind = dataclasses.replace(failed, task=dataclasses.replace(failed.task, truth={}))
    found = attribute(blind, CARDS["mathchat"])
    assert found.failed
    assert found.decided == "tracing"
    assert sum(found.fractions) == pytest.approx(1)
    assert failed.actions[found.culprit or 0].agent == agent
    assert found.walk[-1].action == found.culprit


@pytest.mark.parametrize(("agent", "fault"), FAULTS["dsbench_sprint"])
def test_files_lead_to_the_culprit(tables: Episode, agent: str, fault: str) -> None:
    trajectory = play(tables, agent, fault, seed=1)
    found = attribute(trajectory, CARDS["dsbench_sprint"])
    assert trajectory.outcome is not None
    assert found.failed is not trajectory.outcome.success
    if found.failed:  # a bad model or few rows may still end in a valid submission
        assert (found.decided, trajectory.actions[found.culprit or 0].agent) == ("tracing", agent)


def test_the_record_alone_is_enough(
    tables: Episode, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = play(tables, "engineer_0", "forgets_x_test", seed=1)
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(failed)
    store.close()
    (again,) = read(tmp_path / "t.jsonl")
    assert not again.task.files
    card = CARDS["dsbench_sprint"]
    assert attribute(again, card) == attribute(failed, card)
    assert main(["why", str(tmp_path / "t.jsonl")]) == 0
    printed = capsys.readouterr().out
    assert "<- analyst_0, turn 0 (action 2)" in printed
    assert "engineer_0, turn 0 (action 0): did not write X_test.pkl" in printed
    assert "0 of 1 episodes succeeded" in printed


def test_bad_traces_are_refused(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl cannot be read" in capsys.readouterr().err


def test_why_reads_the_traces_of_a_run(
    tables: Episode, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("before", 1), ("after", 2)):
        store = TraceStore(tmp_path / "traces" / f"{name}.jsonl")
        store.append(play(tables, "engineer_0", "forgets_x_test", seed=seed))
        store.close()
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    assert main(["why", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "before.jsonl, episode 0, task" in out
    assert "after.jsonl, episode 0, task" in out
    assert "0 of 2 episodes succeeded" in out
    assert main(["why", str(tmp_path), "--episode", "1"]) == 2
    assert "has no episode 1: the last one is 0." in capsys.readouterr().err


def run_on_a_card_folder(folder: Path, env_id: str) -> Path:
    """A run folder whose trace names a card without a registered id. Returns the trace."""
    card = folder / "team4"
    card.mkdir()
    (card / "card.yaml").write_text("extends: mathchat\nid: Team4-v0\ntitle: Own\n")
    options = {"sandbox": "calculator", "record": str(folder / "run" / "traces" / "after.jsonl")}
    env = TeamEnv(str(card), **options)
    env.reset(np.random.default_rng(0), {})
    while not env.episode.over:
        env.act("I do not know.")
    env.close()
    (folder / "run" / "config.yaml").write_text(f"env:\n  id: {env_id}\n")
    return folder / "run" / "traces" / "after.jsonl"


def test_why_takes_the_card_of_a_run_from_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = run_on_a_card_folder(tmp_path, "./team4")
    monkeypatch.chdir(tmp_path)
    for what in ("run", "run/traces", "run/traces/after.jsonl", str(trace)):
        assert main(["why", what]) == 0
        assert "0 of 1 episodes succeeded" in capsys.readouterr().out
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(trace.read_bytes())
    assert main(["why", str(copy)]) == 2
    assert "copy.jsonl is unknown: 'Team4-v0' is neither an id" in (err := capsys.readouterr().err)
    assert "Name it with --card." in err
    assert main(["why", str(copy), "--card", "team4"]) == 0


def test_why_prefers_the_card_it_is_given_to_that_of_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = run_on_a_card_folder(tmp_path, "./moved")
    assert main(["why", str(trace)]) == 2
    assert "'./moved' is neither an id" in capsys.readouterr().err
    assert main(["why", str(trace), "--card", str(tmp_path / "team4")]) == 0
    (tmp_path / "run" / "config.yaml").write_text("- no mapping\n")
    assert main(["why", str(trace)]) == 2
    assert "env.id cannot be read" in capsys.readouterr().err


def test_a_success_is_shared_by_its_ancestors(tables: Episode) -> None:
    found = attribute(play(tables), CARDS["dsbench_sprint"])
    assert not found.failed
    assert found.culprit is None
    assert found.fractions == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_of_several_turns_the_one_that_could_have_done_it_is_named() -> None:
    look = "```python\nprint(open('train.csv').read(20))\n```"
    save = "```python\nfor n in ('X_train.pkl', 'y_train.pkl', 'X_test.pkl'): open(n, 'w').write(n)\n```"
    crash = "```python\nfit('X_train.pkl'\n```"
    episode = Episode(CARDS["dsbench"], prompts="compact", coach="off", sandbox="process")
    try:
        # the engineer does its part in turn 1, the modeler's second script fails, the analyst runs nothing
        texts = [look, save, "done", look, crash, "stopped", "nothing to predict with"]
        trajectory = saying(episode, texts)
        assert culprit(trajectory, "dsbench") == ("analyst_0", 0)  # it ran no code at all
        use = "```python\nimport pickle\npickle.load(open('model.pkl', 'rb'))\n```"
        trajectory = saying(episode, [look, save, "done", look, crash, "stopped", use, "no"])
        found = attribute(trajectory, CARDS["dsbench"])
        assert [link.action for link in found.walk] == [6, 4]
        assert culprit(trajectory, "dsbench") == ("modeler_0", 1)
        # two turns are to blame alike: the script that wrote nothing, and the word that ended the segment
        trajectory = saying(episode, [look, "done", look, "done", use, "no"])
        found = attribute(trajectory, CARDS["dsbench"])
        assert found.fractions == (0.5, 0.5, 0, 0, 0, 0)
        # a script that names no file of its agent has not tried: the word that ended the segment is to blame
        trajectory = saying(episode, [save, "done", look, "done", use, "no"])
        assert culprit(trajectory, "dsbench") == ("modeler_0", 1)
        remove = "```python\nimport os\nos.remove('X_test.pkl')\n```"
        need = "```python\nopen('X_test.pkl')\n```"
        trajectory = saying(episode, [save, "done", remove, "done", need, "no"])
        assert culprit(trajectory, "dsbench") == ("modeler_0", 0)
    finally:
        episode.close()


def test_without_a_look_into_files_tracing_does_not_guess() -> None:
    overwrite = "```python\nfor n in ('X_train.pkl', 'y_train.pkl', 'X_test.pkl'): open(n, 'w').write(n)\n```"
    use = "```python\nimport pickle\npickle.load(open('X_train.pkl', 'rb'))\n```"
    episode = Episode(CARDS["dsbench"], prompts="compact", coach="off", sandbox="process")
    try:
        trajectory = saying(
            episode, [overwrite, "done", use, "no", "```python\nopen('model.pkl')\n```", "no"]
        )
    finally:
        episode.close()
    found = attribute(trajectory, CARDS["dsbench"])
    assert (found.fractions, found.decided, found.culprit) == ((), "nobody", None)
    assert {0, 2, 4} <= set(found.suspects)


@pytest.mark.parametrize(
    ("texts", "step"),
    [
        (["1. Add.\n2. Halve.\nThe answer is -123.", "print(-123)", "result: -123"], 0),
        (["plan: -123 = -123", "print('-123 (of 7)\\nDone.')", "result: -123"], 0),
        (["plan: -122", "print(-122)", "Having tried 9:\n`result: -123`"], 2),
        (["plan: -122", "print(-122)", "The answer is -123 (of 9)."], 2),
    ],
)
def test_numbers_are_traced_in_every_form(math: Episode, texts: Sequence[str], step: int) -> None:
    solver, code, report = texts
    actions = [solver, f"```python\n{code}\n```", report, r"answer: \boxed{-123}"]
    assert attribute(saying(math, actions), CARDS["mathchat"]).culprit == step


@pytest.mark.parametrize("off", [0, 1])
@pytest.mark.parametrize("form", ["{0}*2 - {0}", "{0} + 0", "2*{0}/2"])
def test_a_form_that_is_not_graded_leaves_open_whether_the_value_was_right(form: str, off: int) -> None:
    """The record alone does not tell; verdicts that know the truth do."""
    episode = Episode(CARDS["mathchat"], coach="rubric", sandbox="calculator", prompts="compact")
    episode.reset(seed=0)
    value = int(episode.task.truth["answer"]) + off
    box = form.format(f"({value})")
    run = f"```python\nprint({value})\n```"
    trajectory = saying(episode, [f"plan: {value}", run, f"result: {value}", rf"\boxed{{{box}}}"])
    episode.close()
    assert trajectory.outcome is not None
    assert trajectory.outcome.status == "unevaluated"
    assert attribute(trajectory, CARDS["mathchat"]).decided == "nobody"
    found = attribute(trajectory, CARDS["mathchat"], make_coach("rubric", CARDS["mathchat"]))
    assert (found.culprit, found.decided) == (0 if off else 3, "verdicts")


def test_an_episode_that_is_not_over_has_no_end(math: Episode) -> None:
    math.reset(seed=0)
    math.act("plan: 1 + 1")
    with pytest.raises(EpisodeError, match="still running"):
        attribute(math.trajectory, CARDS["mathchat"])


def test_verdicts_decide_where_tracing_does_not(math: Episode) -> None:
    actions = play(math).actions
    team, open_ = CARDS["mathchat"].team, Attribution(True, (), "nobody", suspects=(0, 1, 2))

    def judged(*verdicts: Verdict) -> Any:
        return [dataclasses.replace(a, verdict=v) for a, v in zip(actions, verdicts, strict=False)]

    def ok(score: float, blame: str | None = None) -> Verdict:
        return Verdict("ok", score, blame=blame)

    shared = by_verdicts(judged(ok(4), ok(10), ok(8)), open_, team)
    assert shared.fractions == pytest.approx((0.75, 0, 0.25))
    assert shared.decided == "verdicts"
    own = by_verdicts(judged(ok(9), ok(3), ok(1, actions[2].agent)), open_, team)
    assert own.fractions == (0, 0, 1)
    silent = judged(Verdict("error", None), Verdict("suspect", 1.0), ok(10))
    assert by_verdicts(silent, open_, team) is open_


# -- the one call -----------------------------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-nobody")
    with fakes.serving("openai") as server:
        yield server


@pytest.fixture
def undecided(math: Episode) -> Trajectory:
    """A wrong answer to a plan in prose: nothing shows where it went wrong."""
    prose = "I would first add the two numbers and then look at what is left."
    return saying(math, [prose, "```python\nprint(-123)\n```", "result: -123", r"\boxed{-123}"])


def answer(**grades: tuple[int, str]) -> str:
    rows = {step[1:]: {"quote": quote, "grade": grade} for step, (grade, quote) in grades.items()}
    return json.dumps({"actions": rows})


def test_a_model_is_asked_once_where_tracing_is_silent(fake: FakeServer, undecided: Trajectory) -> None:
    coach = make_coach(f"openai:some-model@{fake.url}", CARDS["mathchat"])
    fake.script += [
        fakes.saying(answer(_0=(3, "I would first add"), _1=(1, "print(-123)"), _2=(0, ""), _3=(0, "")))
    ]
    found = attribute(undecided, CARDS["mathchat"], coach)
    assert (found.fractions, found.decided) == ((0.75, 0.25, 0, 0), "coach")
    assert found.asked is not None
    assert (found.asked.calls, found.asked.prompt, found.asked.template) == (1, 1000, "backward/3")
    (call,) = fake.calls
    assert "how_the_episode_ended" in call.text
    assert undecided.outcome is not None
    assert undecided.outcome.reason not in call.text  # it may tell the truth
    decided = attribute(play_of(undecided), CARDS["mathchat"], coach)
    assert (decided.decided, len(fake.calls)) == ("tracing", 1)


@pytest.mark.parametrize(
    "say",
    [
        fakes.saying(answer(_0=(4, "words that nobody wrote"), _1=(0, ""), _2=(0, ""), _3=(0, ""))),
        fakes.saying(answer(_0=(0, ""), _1=(0, ""), _2=(0, ""), _3=(0, ""))),
        fakes.saying(answer(_0=(9, "print"), _1=(0, ""), _2=(0, ""), _3=(0, ""))),
        fakes.saying("the solver, I think"),
    ],
)
def test_no_fractions_are_invented(fake: FakeServer, undecided: Trajectory, say: Any) -> None:
    fake.otherwise = say
    coach = make_coach(f"openai:some-model@{fake.url}", CARDS["mathchat"])
    found = attribute(undecided, CARDS["mathchat"], coach)
    assert (found.fractions, found.decided) == ((), "nobody")
    assert found.asked is not None
    assert found.asked.calls == len(fake.calls)


def play_of(trajectory: Trajectory) -> Trajectory:
    """The same with a plan that can be held to what was computed."""
    first = dataclasses.replace(trajectory.actions[0], answer="plan: -120 - 4")
    return dataclasses.replace(trajectory, actions=(first, *trajectory.actions[1:]))


# -- rewards ----------------------------------------------------------------------------------------------


def traced(fractions: tuple[float, ...], score: float, *, failed: bool, status: str = "ok") -> Trajectory:
    episode = Episode(CARDS["mathchat"], sandbox="calculator", prompts="compact")
    played = play(episode)
    episode.close()
    scores = itertools.cycle((10.0, 4.0))
    actions = tuple(dataclasses.replace(a, verdict=Verdict("ok", next(scores))) for a in played.actions)
    return dataclasses.replace(
        played,
        actions=actions,
        outcome=Outcome(score, not failed, status, ""),
        attribution=Attribution(failed, fractions, "tracing", suspects=(0, 1)),
    )


def test_backward_rewards_follow_the_formula() -> None:
    shaping = make_shaping({"name": "backward", "weight": 0.5})
    rewards = shaping.rewards(traced((0.8, 0.2, 0, 0), 0.25, failed=True))
    assert rewards == [
        (pytest.approx(10 - 5 * 0.8 * 0.75), True),
        (pytest.approx(4 - 5 * 0.2 * 0.75), True),
        (10.0, True),
        (4.0, True),
    ]
    rewards = shaping.rewards(traced((0, 0.5, 0, 0.5), 1.0, failed=False))
    assert [reward for reward, _ in rewards] == pytest.approx([10, 6.5, 10, 6.5])
    assert [valid for _, valid in shaping.rewards(traced((), 0.0, failed=True))] == [False, False, True, True]
    rewards = shaping.rewards(traced((1.0, 0, 0, 0), 0.0, failed=True, status="unavailable"))
    assert rewards == [(0.0, False)] * 4
    with pytest.raises(OptionError, match="between 0 and 1"):
        make_shaping({"name": "backward", "weight": 2})


def test_an_episode_is_traced_where_the_shaping_asks() -> None:
    episode = Episode(
        CARDS["mathchat"], sandbox="calculator", prompts="compact", shaping="backward", judging="deferred"
    )
    failed = play(episode, "coder_0", "crash")
    assert failed.attribution == attribute(failed, CARDS["mathchat"])
    plain = [record.reward for record in episode.actions]
    assert sum(reward for reward, _ in episode.rewards) < sum(plain) or min(plain) == 0
    episode.reset(seed=5)
    assert episode.trajectory.attribution is None
    episode.close()
