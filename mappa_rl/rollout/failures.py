"""What is the infrastructure's fault and may go well another time, and what is a defect."""

from __future__ import annotations

from concurrent.futures import CancelledError

from mappa_env.errors import CoachError, DataMissingError, SandboxError
from mappa_env.types import Trajectory
from mappa_rl.errors import EngineError
from mappa_rl.types import Rollout


def is_infrastructure(error: BaseException) -> bool:
    """Engines, sandboxes, coaches, files and connections that fail. All else is a defect, or ends the run
    on purpose (``CoachStopped``, missing data)."""
    kinds = (EngineError, SandboxError, CoachError, CancelledError, OSError)
    return isinstance(error, kinds) and not isinstance(error, DataMissingError)


def spoiled(rollout: Rollout, trajectory: Trajectory) -> str:
    """Why a finished episode says nothing of its team: its sandbox was unavailable, or a score is missing
    because the coach could not be asked. Empty: it does."""
    for turn, action in zip(rollout.turns, trajectory.actions, strict=True):
        if action.tool is not None and action.tool.status == "unavailable":
            return f"sandbox: {action.tool.stderr.strip() or 'unavailable'}"
        if action.verdict.status == "error" and not turn.valid:
            return f"coach: {action.verdict.reasoning}"
    return ""
