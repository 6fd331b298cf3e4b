"""What a step's sandbox and coach did: by agent, and by stratum (task family, role, turn)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mappa_env.types import ActionRecord, Trajectory

STATUSES = ("ok", "abstain", "error", "suspect")


def service_stats(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Metrics ``sandbox/...`` and ``coach/...``, as docs/metrics.md has them."""
    actions = [action for trajectory in trajectories for action in trajectory.actions]
    return sandbox_stats(actions) | coach_stats(actions)


def sandbox_stats(actions: Iterable[ActionRecord]) -> dict[str, float]:
    """Of actions whose code ran."""
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


def coach_stats(actions: Iterable[ActionRecord]) -> dict[str, float]:
    """Of all verdicts; calls, latency and cost only where a language model is the coach."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    calls, dollars, asked_any = 0, 0.0, False
    for action in actions:
        verdict = action.verdict
        for status in STATUSES:
            found[f"coach/{status}/{action.agent}"].append(float(verdict.status == status))
        if verdict.status == "ok" and verdict.score is not None:
            found[f"coach/score/{_name(action)}"].append(verdict.score)
        if verdict.asked is not None:
            asked_any = True
            calls += verdict.asked.calls
            dollars += verdict.asked.cost or 0.0
            found["coach/cached"].append(float(verdict.asked.calls == 0))
            if verdict.asked.calls:
                found["time/coach"].append(verdict.asked.latency_s)
                found["time/coach_wait"].append(verdict.asked.waited_s)
    totals = {"coach/calls": float(calls), "coach/dollars": dollars} if asked_any else {}
    return totals | _means(found)


def _name(action: ActionRecord) -> str:
    return "/".join(map(str, action.stratum))


def _means(groups: defaultdict[str, list[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in groups.items()}
