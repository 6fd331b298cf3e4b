"""The sandbox, the coach and the tools of an episode, which its forks share."""

from __future__ import annotations

from mappa_env.coach import Coach
from mappa_env.sandbox.base import Sandbox
from mappa_env.tools.toolbox import Toolbox


class Held:
    """``sandbox``, ``coach`` and ``tools``; the last episode that lets go of them closes them."""

    def __init__(self, sandbox: Sandbox, coach: Coach, tools: Toolbox) -> None:
        self.sandbox, self.coach, self.tools = sandbox, coach, tools
        self._holders = 1

    def share(self) -> Held:
        """The same for one more episode."""
        self._holders += 1
        return self

    def release(self) -> None:
        """Let go. Each holder calls this once."""
        self._holders -= 1
        if self._holders == 0:
            self.sandbox.close()
            self.coach.close()
            self.tools.close()
