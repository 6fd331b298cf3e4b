"""The tools of a card's team: who may call what, within which limits, and what is recorded of a call."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_args

from mappa_env.errors import MappaError, OptionError, ToolError, ToolUnavailable, nearest
from mappa_env.tools import TOOLS
from mappa_env.tools.base import Answer, CallSite, Tool, ToolSpec
from mappa_env.tools.calls import Written
from mappa_env.tools.entry import ToolEntry
from mappa_env.tools.guard import Guard
from mappa_env.tools.python import PYTHON
from mappa_env.tools.python import SPEC as PYTHON_SPEC
from mappa_env.tools.secrets import Secrets
from mappa_env.types import ActionRecord, AgentSpec, Attester, CallStatus, Team, ToolCall

_STATUSES: tuple[str, ...] = get_args(CallStatus)
_ATTESTERS: tuple[Attester, ...] = ("host", "server")
_MOST_TEXT = 400
"""Characters of a description that a prompt shows."""
_MOST_WORDS = 1000
"""Characters of a tool's own words in an error."""


class Described(TypedDict):
    """A tool as prompt templates see it. ``text``: the argument that a fence's text becomes, or empty."""

    name: str
    description: str
    arguments: list[dict[str, Any]]
    text: str


class _Held:
    """A tool with all that surrounds it."""

    def __init__(self, entry: ToolEntry) -> None:
        self.entry, self.secrets, self.guard = entry, Secrets(), Guard()
        subject = f"tools.{entry.name}"
        options = self.secrets.resolve(subject, entry.options)
        try:
            self.tool: Tool = TOOLS.make(entry.use, **options)
        except MappaError as error:  # a library may quote what it was given
            raise OptionError(f"{subject}: {self.secrets.clean(str(error))}") from None
        if self.tool.attester not in _ATTESTERS:
            raise OptionError(
                f"{subject}: attester={self.tool.attester!r} must be one of {', '.join(_ATTESTERS)}."
            )

    def open(self) -> None:
        self.guard.begin()
        try:
            self.tool.open()
        except ToolError as error:
            said = " ".join(self.secrets.clean(str(error)).split())
            raise ToolError(f"tools.{self.entry.name}: {_clipped(said, _MOST_WORDS)[0]}") from None

    def answer(self, function: str, arguments: Mapping[str, Any], site: CallSite) -> Answer:
        """The tool's answer, whatever it raises, clean of secrets."""
        call = self.guard.call if self.tool.guarded else _plainly
        try:
            found = call(self.tool, function, arguments, site)
        except ToolUnavailable as error:
            found = Answer("unavailable", str(error))
        except Exception as error:  # noqa: BLE001  (its text is the result; Tool.call promises that)
            found = Answer("error", f"{type(error).__name__}: {error}")
        if not isinstance(found, Answer):
            found = Answer("ok", str(found))
        self._check(found)
        return Answer(found.status, self.secrets.clean(found.text), _cleaned(found.facts, self.secrets))

    def _check(self, answer: Answer) -> None:
        """Raise ToolError unless the answer of a tool of one's own can be recorded."""
        subject = f"tools.{self.entry.name} answered"
        if answer.status not in _STATUSES or not isinstance(answer.text, str):
            status = self.secrets.clean(repr(answer.status))
            raise ToolError(
                f"{subject} status {status:.80} and a {type(answer.text).__name__}; it must be one of "
                f"{', '.join(_STATUSES)}, and a text."
            )
        try:
            json.dumps(answer.facts, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            why = self.secrets.clean(str(error))
            raise ToolError(f"{subject} facts that JSON cannot hold: {why}") from None


def _plainly(tool: Tool, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer | str:
    return tool.call(name, arguments, site)


class Toolbox:
    """The tools of a card, made and closed with the episode and shared by its forks.

    Python is not among them: its sandbox belongs to the episode. Raises OptionError for a tool that cannot be
    made: an unknown kind, a wrong option, a variable that is not set.
    """

    def __init__(self, entries: Sequence[ToolEntry], team: Team) -> None:
        named = {name.partition(".")[0] for agent in team for name in agent.tools}
        self._tools = {entry.name: _Held(entry) for entry in entries if entry.name in named}
        self._entries = tuple(entry.name for entry in entries)
        self._team = team
        self._offers: dict[str, dict[str, ToolSpec]] = {}
        self._described: dict[str, tuple[Described, ...]] = {}

    @property
    def empty(self) -> bool:
        """Whether no agent may call anything but Python."""
        return not self._tools

    def open(self) -> None:
        """Connect, and find out what each agent may call. May be called again. Raises ToolError."""
        for held in self._tools.values():
            held.open()
        if not self._offers:
            known = self._functions()
            self._offers = {agent.name: _allowed(agent, known) for agent in self._team}

    def offers(self, agent: AgentSpec) -> Mapping[str, ToolSpec]:
        """What ``agent`` may call, by the name that it calls it by."""
        if self._tools:
            return self._offers[agent.name]
        return {PYTHON: PYTHON_SPEC} if PYTHON in agent.tools else {}

    def others(self, agent: AgentSpec) -> tuple[str, ...]:
        """What of this team's tools ``agent`` may not call."""
        mine = self.offers(agent)
        names = {name for offers in self._offers.values() for name in offers} | {*self._entries}
        return tuple(sorted(names - mine.keys()))

    def described(self, agent: AgentSpec) -> tuple[Described, ...]:
        """The tools of ``agent``, for prompts: what they were when the toolbox was opened."""
        if agent.name not in self._described:
            offers = self.offers(agent)
            self._described[agent.name] = tuple(_described(name, spec) for name, spec in offers.items())
        return self._described[agent.name]

    def carry_out(
        self, calls: Sequence[Written], agent: AgentSpec, history: Sequence[ActionRecord], seed: int
    ) -> tuple[ToolCall, ...]:
        """Carry out the calls of one action, in order. Never raises for anything that they hold."""
        before = Counter(
            call.tool.partition(".")[0]
            for record in history
            for call in record.calls
            if call.status != "refused"
        )
        here: Counter[str] = Counter()
        done = []
        for call in calls:
            name, _, function = call.tool.partition(".")
            problem = call.problem or self._over(name, here[name], before[name] + here[name])
            if problem:
                done.append(ToolCall(call.tool, call.arguments, "refused", f"Refused: {problem}"))
                continue
            here[name] += 1
            limits = self._tools[name].entry.limits
            site = CallSite(agent.name, len(history), seed, limits, time.monotonic() + limits.wall_s)
            done.append(self._call(name, function, call, site))
        return tuple(done)

    def close(self) -> None:
        """Close all tools."""
        for held in self._tools.values():
            held.tool.close()

    def _call(self, name: str, function: str, call: Written, site: CallSite) -> ToolCall:
        held, began = self._tools[name], time.monotonic()
        answer = held.answer(function, call.arguments, site)
        seconds = time.monotonic() - began
        status, text = answer.status, answer.text
        if len(text.encode("utf-8", "replace")) > site.limits.result_cap_kb << 10:
            status, text = "output_limit", f"the result has more than {site.limits.result_cap_kb} KiB"
        text, omitted = _clipped(_encodable(text), site.limits.result_chars)
        attester: Attester = held.tool.attester if status in ("ok", "error") else "host"
        facts = answer.facts if held.tool.attester == "host" else {}
        return ToolCall(call.tool, call.arguments, status, text, attester, seconds, omitted, dict(facts))

    def _over(self, name: str, here: int, before: int) -> str:
        limits = self._tools[name].entry.limits
        if here >= limits.per_action:
            return f"an action may call {name} {limits.per_action} times."
        if before >= limits.per_episode:
            return f"an episode may call {name} {limits.per_episode} times."
        return ""

    def _functions(self) -> dict[str, ToolSpec]:
        """All that the tools offer, by full name; Python is first. No name that spells a secret."""
        found = {PYTHON: PYTHON_SPEC}
        for name, held in self._tools.items():
            for spec in held.tool.specs():
                if held.secrets.clean(spec.name) != spec.name:
                    continue
                found[f"{name}.{spec.name}" if spec.name else name] = _cleaned_spec(spec, held.secrets)
        return found


def _allowed(agent: AgentSpec, known: Mapping[str, ToolSpec]) -> dict[str, ToolSpec]:
    found: dict[str, ToolSpec] = {}
    for name in agent.tools:
        whole = "." not in name  # a server could name a function ``weigh.all`` beside the allowed ``weigh``
        mine = {
            full: spec
            for full, spec in known.items()
            if full == name or (whole and full.startswith(f"{name}."))
        }
        if not mine:
            raise ToolError(
                f"the tools of {agent.name} name {name!r}, but its server offers "
                f"{', '.join(known) or 'nothing'}." + nearest(name, known)
            )
        found |= mine
    return found


def _described(name: str, spec: ToolSpec) -> Described:
    arguments = [
        {
            "name": _short(argument),
            "type": _short(schema.get("type", "any")) if isinstance(schema, Mapping) else "any",
            "required": argument in spec.required,
            "description": _short(schema.get("description", "")) if isinstance(schema, Mapping) else "",
        }
        for argument, schema in spec.properties.items()
    ]
    return Described(
        name=name, description=_short(spec.description), arguments=arguments, text=spec.only_text
    )


def _cleaned_spec(spec: ToolSpec, secrets: Secrets) -> ToolSpec:
    return ToolSpec(spec.name, secrets.clean(spec.description), _cleaned(spec.parameters, secrets))


def _cleaned(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.clean(value)
    if isinstance(value, Mapping):
        return {secrets.clean(str(key)): _cleaned(item, secrets) for key, item in value.items()}
    return [_cleaned(item, secrets) for item in value] if isinstance(value, list) else value


def _short(text: Any) -> str:
    text = " ".join(str(text).split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} ..."


def _clipped(text: str, most: int) -> tuple[str, int]:
    """(head and tail of ``text`` with a note between them, the number of characters left out)."""
    if len(text) <= most:
        return text, 0
    head = most // 2
    omitted = len(text) - most
    return f"{text[:head]}\n[{omitted} characters left out]\n{text[len(text) - (most - head) :]}", omitted


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
