"""The records that the parts of the project exchange: frozen dataclasses, one noun a file.

Read this folder first: all others use these classes.
"""

from mappa_env.types.action import ActionRecord, CorrectedAction, Message
from mappa_env.types.attribution import Attribution, Link
from mappa_env.types.evidence import Evidence
from mappa_env.types.file_change import FileChange, FileOp
from mappa_env.types.fresh_run import FreshRun
from mappa_env.types.outcome import Outcome
from mappa_env.types.space import Space, Use
from mappa_env.types.task import VOID, Task
from mappa_env.types.team import AgentSpec, Team, role_of
from mappa_env.types.timing import Timing
from mappa_env.types.tool_call import Attester, CallStatus, ToolCall
from mappa_env.types.tool_result import RunStatus, ToolResult
from mappa_env.types.trajectory import Trajectory
from mappa_env.types.verdict import CallInfo, Criterion, Verdict, VerdictStatus

__all__ = [
    "VOID",
    "ActionRecord",
    "AgentSpec",
    "Attester",
    "Attribution",
    "CallInfo",
    "CallStatus",
    "CorrectedAction",
    "Criterion",
    "Evidence",
    "FileChange",
    "FileOp",
    "FreshRun",
    "Link",
    "Message",
    "Outcome",
    "RunStatus",
    "Space",
    "Task",
    "Team",
    "Timing",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "Use",
    "Verdict",
    "VerdictStatus",
    "role_of",
]
