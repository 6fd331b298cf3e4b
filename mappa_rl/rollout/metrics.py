"""Metrics of a step's episodes: success, rewards, lengths, masked actions, sandbox and coach."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable

from mappa_env.types import ActionRecord, Trajectory
from mappa_rl.errors import RunError
from mappa_rl.rollout.types import Collected
from mappa_rl.types import Rollout, Turn

_NO_ROOM = "the prompt left no room within rollout.max_context"
VERDICT_STATUSES = ("ok", "abstain", "error", "suspect")


def rollout_stats(collected: Collected) -> dict[str, float]:
    """Metrics of one batch of episodes. Rewards (0-10) are means over actions whose reward is valid."""
    rollouts = collected.rollouts
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.ended != "failed":  # a failed episode says nothing about the team
            groups["success"].append(float(rollout.success))
            groups["score"].append(rollout.score)
            groups[f"success/{rollout.topic}"].append(float(rollout.success))
        for turn in rollout.turns:
            groups["masked"].append(float(not turn.valid))
            groups[f"masked/{turn.agent}"].append(float(not turn.valid))
            groups["no_room"].append(float(turn.passed))
            if not turn.passed:
                groups["truncated"].append(float(turn.stopped == "length"))
                groups[f"length/{turn.agent}"].append(float(len(turn.action_ids)))
            if turn.valid:
                family, role, index = turn.stratum
                groups[f"reward/{turn.agent}"].append(turn.reward)
                groups[f"stratum/{family}/{role}/{index}"].append(turn.reward)
    values = {name: sum(found) / len(found) for name, found in groups.items() if found}
    seconds = {f"time/{name}": spent for name, spent in dataclasses.asdict(collected.seconds).items()}
    counts = {"episodes": float(len(rollouts)), "tokens": float(collected.tokens)}
    return {**values, **counts, **seconds, **collected.stats}


def check_masked(collected: Collected, most: float, step: int) -> None:
    """Raise RunError if more than the fraction ``most`` of all actions have no valid reward.

    An episode that ended before its first action counts as one such action.
    """
    turns = [[turn.valid for turn in rollout.turns] or [False] for rollout in collected.rollouts]
    valid = [each for episode in turns for each in episode]
    masked = 1 - sum(valid) / len(valid)
    if masked > most:
        pairs = [
            pair
            for rollout, each in zip(collected.rollouts, collected.trajectories, strict=True)
            for pair in zip(rollout.turns, each.actions, strict=True)
        ]
        counts = Counter(action.verdict.status for _, action in pairs)
        texts = (*collected.reasons, *(_why_masked(turn, action) for turn, action in pairs))
        causes = Counter(text[:200] for text in texts if text).most_common(1)
        raise RunError(
            f"step {step}: {masked:.0%} of the actions have no valid reward, more than "
            f"rollout.max_masked_fraction={most:.0%}. Verdicts: {dict(counts)}; most frequent cause: "
            f"{causes[0][0] if causes else 'none'!r}. Fix the cause, then resume with --resume."
        )


def _why_masked(turn: Turn, action: ActionRecord) -> str:
    """Why an action has no valid reward, as far as it says so itself."""
    if turn.passed:
        return _NO_ROOM
    verdict = action.verdict
    return "" if turn.valid or verdict.status in ("ok", "pending") else verdict.reasoning


def passed_turns(rollouts: Iterable[Rollout]) -> str:
    """One line about prompts that left no room for an action; empty where all did."""
    turns = [turn for rollout in rollouts for turn in rollout.turns]
    agents = Counter(turn.agent for turn in turns if turn.passed)
    if not agents:
        return ""
    counts = ", ".join(f"{agent} {count:,}" for agent, count in sorted(agents.items()))
    return f"{agents.total():,} of {len(turns):,} actions are empty: {_NO_ROOM} ({counts})"


def service_stats(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Metrics ``sandbox/...``, ``tools/...`` and ``coach/...``; docs/metrics.md defines them."""
    actions = [action for trajectory in trajectories for action in trajectory.actions]
    return sandbox_stats(actions) | tool_stats(actions) | coach_stats(actions)


def sandbox_stats(actions: Iterable[ActionRecord]) -> dict[str, float]:
    """Metrics of the actions whose code ran, by agent and by stratum (task family, role, turn)."""
    runs: defaultdict[str, list[float]] = defaultdict(list)
    for action in actions:
        if action.tool is None:
            continue
        agent, status = action.agent, action.tool.status
        runs[f"sandbox/errors/{agent}"].append(float(status == "error"))
        runs[f"sandbox/timeouts/{agent}"].append(float(status == "timeout"))
        runs[f"sandbox/failures/{agent}"].append(float(status not in ("ok", "error", "timeout")))
        runs[f"time/sandbox/{agent}"].append(action.tool.wall_s)
        runs[f"time/sandbox_queue/{agent}"].append(action.tool.queued_s)
        runs[f"sandbox/not_ok/{_name(action)}"].append(float(status != "ok"))
    counts = {
        name.replace("/errors/", "/runs/"): float(len(found))
        for name, found in runs.items()
        if name.startswith("sandbox/errors/")
    }
    return counts | _means(runs)


def tool_stats(actions: Iterable[ActionRecord]) -> dict[str, float]:
    """Metrics of the calls of tools other than Python, by agent."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for action in actions:
        for call in action.calls:
            found[f"tools/refused/{action.agent}"].append(float(call.status == "refused"))
            found[f"tools/failures/{action.agent}"].append(float(call.status not in ("ok", "refused")))
            found[f"time/tools/{action.agent}"].append(call.seconds)
    counts = {
        name.replace("/refused/", "/calls/"): float(len(values))
        for name, values in found.items()
        if name.startswith("tools/refused/")
    }
    return counts | _means(found)


def coach_stats(actions: Iterable[ActionRecord]) -> dict[str, float]:
    """Metrics of all verdicts; calls, latency and cost only where a language model is the coach."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    calls, retries, dollars, any_call = 0, 0, 0.0, False
    for action in actions:
        verdict = action.verdict
        for status in VERDICT_STATUSES:
            found[f"coach/{status}/{action.agent}"].append(float(verdict.status == status))
        if (score := verdict.valid_score) is not None:
            found[f"coach/score/{_name(action)}"].append(score)
        if verdict.asked is not None:
            any_call = True
            calls += verdict.asked.calls
            retries += verdict.asked.retries
            dollars += verdict.asked.cost or 0.0
            found["coach/cached"].append(float(verdict.asked.calls == 0))
            if verdict.asked.calls:
                found["time/coach"].append(verdict.asked.latency_s)
                found["time/coach_wait"].append(verdict.asked.waited_s)
    totals = {"coach/calls": float(calls), "coach/retries": float(retries), "coach/dollars": dollars}
    return (totals if any_call else {}) | _means(found)


def coach_troubles(trajectories: Iterable[Trajectory]) -> str:
    """One line about the calls to a language model that were retried or failed; empty where all went well."""
    verdicts = [action.verdict for trajectory in trajectories for action in trajectory.actions]
    asked = [(verdict, verdict.asked) for verdict in verdicts if verdict.asked is not None]
    calls, retries = sum(info.calls for _, info in asked), sum(info.retries for _, info in asked)
    failed = sum(verdict.status == "error" for verdict, _ in asked)
    if not retries and not failed:
        return ""
    return f"coach: {retries:,} of {calls:,} calls were retries, {failed:,} of {len(asked):,} verdicts failed"


def _name(action: ActionRecord) -> str:
    return "/".join(map(str, action.stratum))


def _means(groups: defaultdict[str, list[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in groups.items()}
