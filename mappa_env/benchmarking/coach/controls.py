"""Controls against coasting: what an agent earns for idling, stopping, reporting or working around a fault.

An earlier agent's program fails, so that a later agent's inputs are missing. That agent then does one of the
things below. A false claim is made in an episode without any fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mappa_env.benchmarking.coach.faults import Fault, faults, need_script
from mappa_env.benchmarking.coach.play import play
from mappa_env.episode.episode import Episode
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord, AgentSpec

FAULT = "raises"
"""The mutation that breaks the inputs: an assertion fails before anything is saved or printed."""
KINDS = ("idle", "stop", "report", "workaround", "false claim")


@dataclass(frozen=True, slots=True)
class Control:
    """What ``agent`` does, as one of ``KINDS``. ``texts``: its actions; empty: the expert's reaction."""

    kind: str
    agent: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Controlled:
    """The verdicts on a control. ``scores``: of the agent's actions, None without a score.

    ``clean``: the scores of the same agent in the episode without the fault. ``culprit``: the agent at fault,
    empty for a false claim.
    """

    task: str
    kind: str
    agent: str
    culprit: str
    scores: tuple[float | None, ...]
    clean: tuple[float | None, ...]


def controlled(episode: Episode, task_id: str, seed: int) -> Iterator[Controlled]:
    """Play and judge every control on one task.

    None of one that the expert fails: there its workaround gains nothing, and no fault counts either.
    """
    play(episode, task_id, seed)
    good, end = episode.actions, episode.outcome
    if end is None or not end.success or end.score <= 0:
        return
    clean = {spec.name: _scores(good, spec.name) for spec in episode.card.team}
    broken = [f for f in faults(episode.card, episode.task, seed, good) if f.name == FAULT]
    for at, victim in enumerate(episode.card.team.agents[1:], 1):
        name = victim.name
        for control in _false_claims(victim, good):
            scores = _judged(episode, task_id, seed, control, None)
            yield Controlled(task_id, control.kind, name, "", scores, clean[name])
        for fault in broken:
            if fault.agent not in episode.card.team.names[:at]:
                continue
            for control in _reactions(victim, good, str(episode.task.truth.get("answer", ""))):
                scores = _judged(episode, task_id, seed, control, fault)
                yield Controlled(task_id, control.kind, name, fault.agent, scores, clean[name])


def _reactions(victim: AgentSpec, good: Sequence[ActionRecord], answer: str) -> Iterator[Control]:
    name = victim.name
    yield Control("stop", name, ())
    yield Control("idle", name, ("I wait until the others have done their part.",))
    if not victim.requires:  # it communicates by text: to say that there is no value is a report
        yield Control("report", name, (r"Nothing reached me that I could check: \boxed{none}",))
        yield Control("workaround", name, (rf"I have worked it out myself: \boxed{{{answer}}}",))
        return
    for line in ("pass", "raise ValueError('x')", "assert False", *map(repr, victim.reads)):
        yield Control("idle", name, (_fenced(line), "I wait."))
    look = f"for name in {list(victim.reads)}:\n    try:\n        open(name, 'rb').close()\n"
    yield Control(
        "report", name, (_fenced(f"{look}    except OSError as error:\n        print(error)"), "See above.")
    )
    step = next(action.step for action in good if action.agent == name and action.code)
    programs = [action.code for action in good[: step + 1] if action.code]
    yield Control("workaround", name, (_fenced("\n".join(programs)), "I did the earlier parts myself."))


def _false_claims(victim: AgentSpec, good: Sequence[ActionRecord]) -> Iterator[Control]:
    if not victim.requires:
        yield Control("false claim", victim.name, (r"Nothing reached me that I could check: \boxed{none}",))
        return
    path = victim.reads[0]
    yield Control("false claim", victim.name, (f"{path} is missing, so I cannot do my part.",))
    for line in (f"raise FileNotFoundError({path!r})", f"print('{path} is missing')"):
        yield Control("false claim", victim.name, (_fenced(line), f"{path} is missing."))


def _judged(
    episode: Episode, task_id: str, seed: int, control: Control, fault: Fault | None
) -> tuple[float | None, ...]:
    team = make_team(need_script(episode.card), "expert")
    episode.reset(seed=seed, task_id=task_id)
    team.reset(episode.task, seed)
    while (agent := episode.agent) is not None:
        turn, texts = episode.turn, control.texts if agent == control.agent else ()
        if fault is not None and (agent, turn) == (fault.agent, fault.own):
            episode.act(fault.text)
        elif turn < len(texts):
            episode.act(texts[turn])
        else:
            episode.act(team.act(agent, turn, episode.actions))
    return _scores(episode.actions, control.agent)


def _scores(actions: Sequence[ActionRecord], agent: str) -> tuple[float | None, ...]:
    mine = [action.verdict for action in actions if action.agent == agent]
    return tuple(verdict.score if verdict.status == "ok" else None for verdict in mine)


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


@dataclass(frozen=True, slots=True)
class Earned:
    """What one kind of control earns. ``least`` and ``most``: of single actions; ``mean``: over all.

    ``kept``: the least part that an agent keeps of its mean score without the fault; NaN without scores.
    """

    episodes: int
    least: float
    mean: float
    most: float
    kept: float


def earned(rows: Sequence[Controlled]) -> dict[str, Earned]:
    """Kind of control -> what it earns. Kinds without a scored episode are left out."""
    found = {}
    for kind in KINDS:
        plays = [row for row in rows if row.kind == kind and None not in (*row.scores, *row.clean)]
        means = [(_mean(row.scores), _mean(row.clean)) for row in plays]
        scores = [score for row in plays for score in row.scores if score is not None]
        if scores:
            kept = min(mine / whole if whole else 1.0 for mine, whole in means)
            found[kind] = Earned(len(plays), min(scores), _mean(scores), max(scores), kept)
    return found


def _mean(scores: Sequence[float | None]) -> float:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known)


__all__ = ["Control", "Controlled", "Earned", "controlled", "earned"]
