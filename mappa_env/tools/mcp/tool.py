"""The functions of an MCP server as a tool."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mappa_env.errors import OptionError, ToolError, ToolUnavailable
from mappa_env.tools.base import Answer, CallSite, ToolSpec
from mappa_env.tools.secrets import Hidden, holds_secret
from mappa_env.types import Attester

if TYPE_CHECKING:
    from mappa_env.tools.mcp.connection import Connection
    from mappa_env.tools.mcp.traffic import Traffic

_GREETING_CAP = 4 << 20
"""Bytes of a server's greeting and list of functions."""
_LONGEST_NAME = 64
_MOST_SCHEMA = 20_000
"""Characters of a function's schema, as JSON."""


@dataclass(eq=False, kw_only=True)
class McpTool:
    """The functions of one server. What it says is the server's word; how a call ended is the host's.

    ``command``: start this program and talk to it over its standard streams. Its environment is ``PATH``, the
    variables that ``inherit`` names, and ``env``, whose values may name secrets. ``url``: or connect to this
    address (streamable HTTP), with ``headers``, which may, too. ``functions``: those that agents may use, by
    default all. ``start_s``: seconds for a connection to come about. ``fresh``: connect again in every
    episode that calls, for a server that remembers things; a server of ``command`` then starts again.
    ``cwd``: where ``command`` runs.

    The list of functions is read once: a server cannot change it later. Raises OptionError.
    """

    command: Sequence[str] | None = None
    url: str | None = None
    env: Mapping[str, Hidden] = field(default_factory=dict)
    headers: Mapping[str, Hidden] = field(default_factory=dict)
    inherit: Sequence[str] = ()
    functions: Sequence[str] | None = None
    start_s: float = 30.0
    fresh: bool = False
    cwd: str = "."

    def __post_init__(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise OptionError("tools of MCP servers need the package mcp: pip install 'mappa[mcp]'.")
        if not isinstance(self.start_s, (int, float)) or not 0 < self.start_s <= 3600:
            raise OptionError(f"start_s={self.start_s!r} must be a number of seconds, at most 3600.")
        if not isinstance(self.fresh, bool):
            raise OptionError(f"fresh={self.fresh!r} must be true or false.")
        if self.functions is not None:
            _check_texts("functions", self.functions)
        if (self.command is None) == (self.url is None):
            raise OptionError("an MCP server needs either command (a program) or url (an address).")
        if self.command is not None:
            self._check_program(self.command)
        elif not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise OptionError(f"url={self.url!r} must begin with http:// or https://.")
        elif self.env or self.inherit:
            raise OptionError("env and inherit belong to command; an address takes headers.")
        self.attester: Attester = "server"
        self.guarded = False
        self._specs: tuple[ToolSpec, ...] | None = None
        self._connection: Connection | None = None

    def open(self) -> None:
        """Connect if there is no list of functions yet. If ``fresh``, an episode's first call connects."""
        if self.fresh and self._specs is not None:
            self.close()
        if self._specs is None:
            try:
                self._connect()
            except ToolUnavailable as error:
                raise ToolError(f"{error}. Check its command or url, or raise start_s.") from None

    def specs(self) -> Sequence[ToolSpec]:
        """The functions that the server listed first, or those of ``functions``."""
        assert self._specs is not None, "call open() before specs()"
        return self._specs

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer:
        """See ``Tool.call``. The call's time begins when there is a connection."""
        connection = self._connected()
        began = time.monotonic()
        answer = self._ask(connection, name, arguments, site)
        if answer is not None:
            return answer
        # The connection ended. If there can be another one, this call may have been the cause.
        took = time.monotonic() - began
        self.close()
        self._connected()
        return Answer("error", f"the server ended the connection during this call, after {took:.1f} s")

    def close(self) -> None:
        """End the connection and the server's process."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _ask(
        self, connection: Connection, name: str, arguments: Mapping[str, Any], site: CallSite
    ) -> Answer | None:
        """The answer; None if the connection is lost."""
        from mcp import MCPError  # lazy: takes a second
        from mcp.types import INTERNAL_ERROR

        from mappa_env.tools.mcp.connection import Lost

        limits = site.limits
        try:
            result = connection.call(name, arguments, limits.wall_s, limits.result_cap_kb << 10)
        except TimeoutError:
            self.close()  # what it still does must not reach another call
            return Answer("timeout", f"the server did not answer within {limits.wall_s:g} s")
        except Lost:
            return self._flood(connection, site)
        except MCPError as error:
            if error.code == INTERNAL_ERROR and self._url_fails():
                self.close()
                raise ToolUnavailable(f"the server fails: {error.message}") from None
            return Answer("error", f"the server refused: {error.message}")
        except ValueError:
            if connection.flooded:
                return self._flood(connection, site)
            return Answer("error", "what the server answered is no result of a tool")
        status, text = _read(result)
        return Answer("error" if status else "ok", text)

    def _flood(self, connection: Connection, site: CallSite) -> Answer | None:
        if not connection.flooded:
            return None
        self.close()
        return Answer("output_limit", f"the server said more than {site.limits.result_cap_kb} KiB")

    def _url_fails(self) -> bool:
        """Whether a server behind an address refuses even a greeting: then no agent's words are the cause."""
        if self.url is None:
            return False
        try:
            self._new().close()
        except ToolUnavailable:
            return True
        return False

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.lost:
            self.close()
            self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        self._connection = self._new()

    def _new(self) -> Connection:
        """A new connection. Raises ToolUnavailable."""
        from mappa_env.tools.mcp.connection import Connection

        connection = Connection(self._streams, _GREETING_CAP)
        try:
            listed = connection.start(self.start_s)
        except Exception as error:  # noqa: BLE001  (the SDK and its libraries raise many kinds)
            connection.close()
            raise ToolUnavailable(f"the MCP server cannot be used: {self._why(connection, error)}") from None
        try:
            self._specs = self._specs or tuple(_specs(listed, self.functions))
        except ToolError:
            connection.close()
            raise
        return connection

    def _why(self, connection: Connection, error: BaseException) -> str:
        if connection.flooded:
            return f"its greeting has more than {_GREETING_CAP >> 20} MiB"
        if isinstance(error, TimeoutError):
            return f"no greeting within {self.start_s:g} s"
        if isinstance(error, OSError):
            return f"{type(error).__name__}: {error.strerror or 'cannot be reached'}"
        return f"{type(error).__name__}: {error}"  # whole: half a secret is not recognised as one

    def _check_program(self, command: Sequence[str]) -> None:
        _check_texts("command", command)
        _check_texts("inherit", self.inherit)
        if not command:
            raise OptionError("command must name a program.")
        if self.headers:
            raise OptionError("headers belong to url; a program takes env.")
        for name in self.inherit:
            if holds_secret(name):
                raise OptionError(
                    f"inherit names {name}, which looks like a secret: write env: {{{name}: ${name}}}, so "
                    "that its value is kept out of results."
                )
            if name not in os.environ:
                raise OptionError(f"inherit names the environment variable {name}, which is not set.")

    def _streams(self, traffic: Traffic) -> AbstractAsyncContextManager[Any]:
        """How to reach the server. The secrets are revealed here, and only here."""
        if self.command is None:
            from mappa_env.tools.mcp.http import http_streams

            assert self.url is not None
            headers = {name: value.reveal() for name, value in self.headers.items()}
            return http_streams(self.url, headers, self.start_s, traffic)
        from mappa_env.tools.mcp.stdio import process_streams

        inherited = {name: os.environ[name] for name in ("PATH", *self.inherit) if name in os.environ}
        shown = {name: value.reveal() for name, value in self.env.items()}
        return process_streams(self.command, inherited | shown, self.cwd, traffic)


def _specs(listed: Sequence[Any], wanted: Sequence[str] | None) -> list[ToolSpec]:
    """The functions that can be offered. One whose name or schema nobody could use is left out."""
    found: dict[str, ToolSpec] = {}
    for function in listed:
        name = function.name
        usable = 0 < len(name) <= _LONGEST_NAME and name.isprintable() and not set(name) & set(" `<>\"'")
        if not usable or name.lower() in found or (wanted is not None and name not in wanted):
            continue
        schema = function.input_schema
        if len(json.dumps(schema)) > _MOST_SCHEMA:
            continue
        found[name.lower()] = ToolSpec(name, function.description or "", schema)
    absent = sorted(set(wanted or ()) - {spec.name for spec in found.values()})
    if absent:
        names = ", ".join(repr(function.name) for function in listed[:20])
        raise ToolError(f"the server does not offer {', '.join(absent)}; it offers {names or 'nothing'}.")
    return list(found.values())


def _read(result: Any) -> tuple[bool, str]:
    """(whether the tool failed, its result as text). Pictures, sounds and files are only named."""
    texts = []
    for block in result.content:
        texts.append(block.text if block.type == "text" else f"[{block.type}]")
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return result.is_error, "\n".join(texts)


def _check_texts(name: str, values: Any) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) and value for value in values):
        raise OptionError(f"{name}={values!r} must be a list of texts.")
