"""Calls with a deadline: the host stops waiting for a tool that does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from mappa_env.errors import ToolUnavailable
from mappa_env.tools.base import Answer, CallSite, Tool

_GRACE_S = 0.25
"""What a tool that watches the deadline itself may take to say so."""


class Guard:
    """Runs the calls of one tool in a thread, one at a time.

    Nothing can end a thread. A call that does not return keeps the tool busy; until it does, further calls
    end with ``timeout``, so a tool never has more than one thread. In a later episode they are unavailable:
    nobody in that one is the cause.
    """

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._held_up = False

    def begin(self) -> None:
        """An episode begins."""
        self._held_up = self._busy.locked()

    def call(self, tool: Tool, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer | str:
        """The tool's answer. Raises what the tool raises, and ToolUnavailable."""
        if self._busy.acquire(timeout=site.left):
            self._held_up = False
        elif self._held_up:
            raise ToolUnavailable("a call of an earlier episode still runs")
        else:
            return Answer("timeout", f"an earlier call still runs after {site.limits.wall_s:g} s")
        done: Future[Answer | str] = Future()
        work: Callable[[], None] = lambda: self._work(done, tool, name, arguments, site)  # noqa: E731
        threading.Thread(target=work, name="mappa-tool", daemon=True).start()
        try:
            return done.result(site.left + _GRACE_S)
        except TimeoutError:
            if done.done():
                raise  # the tool's own
            return Answer("timeout", f"no answer within {site.limits.wall_s:g} s")

    def _work(
        self, done: Future[Answer | str], tool: Tool, name: str, arguments: Mapping[str, Any], site: CallSite
    ) -> None:
        try:
            answer = tool.call(name, arguments, site)
        except BaseException as error:  # noqa: BLE001  (the future raises it in ``result()``)
            self._busy.release()
            done.set_exception(error)
        else:
            self._busy.release()
            done.set_result(answer)
