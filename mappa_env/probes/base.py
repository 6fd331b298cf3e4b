"""The probe protocol: facts from inside the files that a team hands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mappa_env.grading.base import FreshSandbox
from mappa_env.sandbox.base import Limits, Sandbox
from mappa_env.sandbox.fresh import FreshRuns
from mappa_env.types import Task
from mappa_env.workspace.workspace import Workspace


class Site(NamedTuple):
    """Where to look, and with what. ``limits`` are those of an action, ``seed`` is the next agent's.

    ``sandbox`` runs programs in ``workspace`` itself, ``fresh`` in a new one with the files that you give it.
    ``again``: a program cast doubt on what a model has said, so that it is to be asked again.
    """

    sandbox: Sandbox
    workspace: Workspace
    task: Task
    limits: Limits
    seed: int
    again: bool = False

    @property
    def fresh(self) -> FreshSandbox:
        """Runs programs as a grader does; raises SandboxError where the sandbox is unavailable."""
        return FreshRuns(self.sandbox, self.limits, self.seed)


class Probe(Protocol):
    """Looks into files after an action that wrote one of them."""

    def look(self, site: Site) -> Mapping[str, Any]:
        """Facts as JSON values. The host never opens what an agent wrote: see ``exports``.

        ``{"probe_failed": "unavailable"}`` where the sandbox was; whatever else a file does is a fact.
        """
        ...
