"""Renders a card's Jinja templates to chat messages."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from mappa_env.cards import Card
from mappa_env.errors import CardError, OptionError, nearest
from mappa_env.sandbox.base import Limits
from mappa_env.types import AgentSpec, Message, Task, ToolCall, ToolResult

_RECORDS = frozenset({Task, AgentSpec, ToolCall, ToolResult, Limits})


def clip(text: object, limit: int = 400) -> str:
    """Keep head and tail of ``text`` within ``limit`` characters (a template filter)."""
    text = str(text)
    if len(text) <= limit:
        return text
    half = max((limit - 5) // 2, 1)
    return f"{text[:half]} ... {text[-half:]}"


class Prompter:
    """Renders the first message of a segment and the replies to tool calls."""

    def __init__(self, card: Card, length: str = "full") -> None:
        if length not in card.lengths:
            raise OptionError(
                f"prompts={length!r} must be one of {', '.join(card.lengths)}: the card {card.id} has no "
                "others." + nearest(str(length), card.lengths)
            )
        self._files = {name: path for (kind, name), path in card.prompt_files.items() if kind == length}
        self._templates = {}
        for name, path in self._files.items():
            try:
                template = _environment().from_string(card.prompts[length, name])
            except jinja2.TemplateSyntaxError as error:
                raise CardError(f"{path} line {error.lineno}: {error.message}") from None
            template.globals = dict(template.globals)  # every rendering copies it; a ChainMap copies slowly
            self._templates[name] = template

    def render(self, name: str, context: Mapping[str, Any]) -> Message:
        """Render the template ``name``, a role or ``"tool"``. Raises CardError with file and line."""
        template = self._templates[name]
        try:
            return {"role": "user", "content": template.render(context).strip()}
        except Exception as error:  # noqa: BLE001  a template can raise anything
            raise CardError(
                f"{self._files[name]} line {_line_of(error)}: {type(error).__name__}: {error}"
            ) from None


def _line_of(error: BaseException) -> int:
    """The line of the template that raised ``error``; jinja2 writes it into the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == "<template>"), 0)


class _Environment(SandboxedEnvironment):
    """A sandbox for templates, because anyone may have written a card. Hides the task's truth.

    Public fields of our own records and keys of dicts are safe, so they skip the checks, which cost more than
    the rest of a rendering.
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
                pass  # the base class reports it
        return super().getattr(obj, attribute)


@functools.cache
def _environment() -> SandboxedEnvironment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["clip"] = clip
    return environment
