"""The one exception family of ``mappa_env``: every message names the value and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MappaError(Exception):
    """Base class of everything ``mappa_env`` raises on purpose."""


class OptionError(MappaError, ValueError):
    """A keyword has a value that is not offered."""


class CardError(MappaError, ValueError):
    """An environment card is malformed."""


class UnknownTaskError(MappaError, KeyError):
    """A task id that the task set does not hold."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class DataMissingError(MappaError, FileNotFoundError):
    """Task files that the user has to add first; the message names the command."""


class DataError(MappaError, ValueError):
    """Task files that are there but cannot be used."""


class EpisodeError(MappaError, RuntimeError):
    """An episode was used out of order (for instance ``act`` before ``reset``)."""


class WorkspaceError(MappaError, OSError):
    """A workspace operation was refused."""


class SandboxError(MappaError, RuntimeError):
    """The sandbox itself (not the agent's code) cannot work."""


class CoachError(MappaError, RuntimeError):
    """The coach cannot be built or asked."""


class CoachStopped(MappaError, RuntimeError):
    """The coach must not go on: a wrong key, another model than before, the budget is spent. Ends the run."""


class SandboxWarning(UserWarning):
    """The sandbox in use protects less than its name may suggest."""


class CoachWarning(UserWarning):
    """Something about the coach's files is not as it should be; the run goes on."""


def nearest(value: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string."""
    match = difflib.get_close_matches(value, list(known), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""
