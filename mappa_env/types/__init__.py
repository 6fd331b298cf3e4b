"""The records that the parts of the project exchange: frozen dataclasses, one noun a file.

Read this folder first: all others use these classes.
"""

from mappa_env.types.action import ActionRecord, CorrectedAction, Message
from mappa_env.types.attribution import Attribution, Link
from mappa_env.types.evidence import Evidence
from mappa_env.types.file_change import FileChange, FileOp
from mappa_env.types.outcome import Outcome
from mappa_env.types.space import Space, Use
from mappa_env.types.task import Task
from mappa_env.types.team import AgentSpec, Team, role_of
from mappa_env.types.tool_result import RunStatus, ToolResult
from mappa_env.types.trajectory import Trajectory
from mappa_env.types.verdict import CallInfo, Criterion, Verdict, VerdictStatus

__all__ = [
    "ActionRecord",
    "AgentSpec",
    "Attribution",
    "CallInfo",
    "CorrectedAction",
    "Criterion",
    "Evidence",
    "FileChange",
    "FileOp",
    "Link",
    "Message",
    "Outcome",
    "RunStatus",
    "Space",
    "Task",
    "Team",
    "ToolResult",
    "Trajectory",
    "Use",
    "Verdict",
    "VerdictStatus",
    "role_of",
]
