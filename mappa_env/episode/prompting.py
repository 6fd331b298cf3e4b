"""Jinja templates of a card -> chat messages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from mappa_env.cards import LENGTHS, Card
from mappa_env.errors import CardError, OptionError, nearest
from mappa_env.types import AgentSpec, Message, Task, ToolResult

_RECORDS = frozenset({Task, AgentSpec, ToolResult})


def clip(text: object, limit: int = 400) -> str:
    """Keep head and tail of ``text`` within ``limit`` characters (a template filter)."""
    text = str(text)
    if len(text) <= limit:
        return text
    half = max((limit - 5) // 2, 1)
    return f"{text[:half]} ... {text[-half:]}"


class Prompter:
    """Renders the opening message of a stay and the message that answers a tool call."""

    def __init__(self, card: Card, length: str = "full") -> None:
        if length not in LENGTHS:
            raise OptionError(
                f"prompts={length!r} is not offered; use one of {LENGTHS}." + nearest(str(length), LENGTHS)
            )
        self._templates = {}
        for role in {agent.role for agent in card.team} | {"tool"}:
            try:
                template = _environment().from_string(card.prompts[length, role])
            except jinja2.TemplateSyntaxError as error:
                raise CardError(
                    f"{card.folder}/prompts/{length}/{role}.jinja line {error.lineno}: {error.message}"
                ) from None
            template.globals = dict(template.globals)  # a ChainMap is slow to copy at every rendering
            self._templates[role] = template

    def render(self, name: str, context: Mapping[str, Any]) -> Message:
        """``name`` is a role or ``"tool"``. Raises CardError when the template fails, in whatever way."""
        template = self._templates[name]
        try:
            return {"role": "user", "content": template.render(context).strip()}
        except Exception as error:  # noqa: BLE001  a template can compute, so it can raise anything
            reason = f"{type(error).__name__}: {error}"
            raise CardError(f"prompt template {name!r} failed: {reason}") from None


class _Environment(SandboxedEnvironment):
    """Cards may come from anyone, so their templates get the sandboxed environment, and no task's truth.

    Public fields of our own records and keys of dicts skip its checks, which cost more than the rest of a
    rendering: neither can lead a template anywhere.
    """

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return super().is_safe_attribute(obj, attr, value) and not (attr == "truth" and isinstance(obj, Task))

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute in obj:
            return obj[attribute]
        if kind in _RECORDS and not attribute.startswith(("_", "truth")):
            try:
                return getattr(obj, attribute)
            except AttributeError:
                pass  # the base class knows how to say so
        return super().getattr(obj, attribute)


@functools.cache
def _environment() -> SandboxedEnvironment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["clip"] = clip
    return environment
