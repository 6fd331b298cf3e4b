"""The exceptions of ``mappa_env``. Every message names the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MappaError(Exception):
    """Base class of all exceptions that ``mappa_env`` raises itself."""


class OptionError(MappaError, ValueError):
    """An option has an invalid value."""


class CardError(MappaError, ValueError):
    """An environment card is malformed."""


class UnknownTaskError(MappaError, KeyError):
    """A task id is not in the task set."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class DataMissingError(MappaError, FileNotFoundError):
    """Task files are missing. The message names the command that adds them."""


class DataError(MappaError, ValueError):
    """Task files are invalid."""


class EpisodeError(MappaError, RuntimeError):
    """A call on an episode came out of order, such as ``act`` before ``reset``."""


class WorkspaceError(MappaError, OSError):
    """A workspace operation was refused."""


class SandboxError(MappaError, RuntimeError):
    """The sandbox itself, not the agent's code, failed."""


class SandboxTimeout(SandboxError):
    """The sandbox did not start or answer in time. Says nothing about what the machine supports."""


class ToolError(MappaError, RuntimeError):
    """A tool could not be set up: its server does not start, or lacks what the card names."""


class ToolUnavailable(MappaError, RuntimeError):
    """A tool failed before it saw the agent's words: nobody's fault. Tools raise it in ``call``."""


class CoachError(MappaError, RuntimeError):
    """The coach could not be built or called."""


class CoachStopped(MappaError, RuntimeError):
    """The coach cannot continue: a wrong key, a changed model or a spent budget. Ends the run.

    So does a model that plays in an evaluation, and one whose server is away.
    """


class EvaluationError(MappaError, RuntimeError):
    """An evaluation cannot be made, or is not what its folder holds."""


class UnfinishedEvaluation(EvaluationError):
    """Episodes of an evaluation are missing; the same command plays them."""


class RemoteError(MappaError, RuntimeError):
    """A served environment cannot be reached, or refuses a call."""


class StatsError(MappaError, ValueError):
    """A statistic cannot be computed from the given data."""


class SandboxWarning(UserWarning):
    """The sandbox in use isolates less than its name may suggest."""


class CoachWarning(UserWarning):
    """A problem with the coach's files that does not stop the run."""


class DataWarning(UserWarning):
    """Task files became unreadable while an episode used them."""


def nearest(value: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string."""
    match = difflib.get_close_matches(value, list(known), n=1, cutoff=0.6)
    return f" Did you mean {match[0]!r}?" if match else ""
