"""Infrastructure failures, which a retry may cure, as opposed to defects and deliberate stops."""

from __future__ import annotations

from concurrent.futures import CancelledError

from mappa_env.errors import CoachError, DataMissingError, SandboxError, ToolError
from mappa_env.types import Trajectory
from mappa_rl.errors import ClusterError, EngineError
from mappa_rl.types import Rollout


def is_infrastructure(error: BaseException) -> bool:
    """Whether an engine, the cluster, a sandbox, a tool, a coach, a file or a connection failed.

    Anything else is a defect, or ends the run on purpose (``CoachStopped``, missing data).
    """
    kinds = (EngineError, ClusterError, SandboxError, ToolError, CoachError, CancelledError, OSError)
    return isinstance(error, kinds) and not isinstance(error, DataMissingError)


def infrastructure_failure(rollout: Rollout, trajectory: Trajectory) -> str:
    """Why a finished episode says nothing about its team; empty if it does.

    Its sandbox or a tool was unavailable, for an action or for the grader, or a reward is missing because the
    coach could not be reached.
    """
    for turn, action in zip(rollout.turns, trajectory.actions, strict=True):
        if action.unavailable:
            return action.unavailable
        if action.verdict.status == "error" and not turn.valid:
            return f"coach: {action.verdict.reasoning}"
    if trajectory.outcome is not None and trajectory.outcome.status == "unavailable":
        return f"sandbox: {trajectory.outcome.reason}"
    return ""
