"""Cards: folders that each describe one environment. See ``docs/cards.md`` for the format."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import envs_registry
from mappa_env.card_files import find_file, inside, usable
from mappa_env.errors import CardError, OptionError, nearest
from mappa_env.json_and_yaml import read_yaml
from mappa_env.order import Order, read_order
from mappa_env.plugins import from_card
from mappa_env.sandbox.base import Limits
from mappa_env.scripted import SCRIPTS
from mappa_env.tools.entry import ToolEntry, read_tools
from mappa_env.tools.python import PYTHON
from mappa_env.types import AgentSpec, Team, role_of

_NAME = re.compile(r"[a-z]+_[0-9]+")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9-]*-v[0-9]+")
_SPECIAL = ("tool", "again")
LENGTHS = ("full", "brief", "compact")
"""Lengths of prompts: for large models, for small language models, and for small vocabularies."""


@dataclass(frozen=True, slots=True)
class Card:
    """A checked card. ``folder`` is the folder that it was read from."""

    id: str
    title: str
    summary: str
    folder: Path
    team: Team
    order: Order
    """Who acts when; by default every agent once."""
    loader: str
    loader_options: Mapping[str, Any]
    grader: str
    grader_options: Mapping[str, Any]
    rubric: Path | None
    coach: Path | None
    """File with the questions that a language model answers about each action; None: no questions."""
    truth: tuple[str, ...]
    """Agents whose verdicts may use the task's hidden truth."""
    scripted: str | None
    probe: str | None
    """Name of the probe that looks inside files; None: no probe."""
    limits: Limits
    tools: tuple[ToolEntry, ...]
    """The tools besides Python, by the names under which agents list them."""
    prompts: Mapping[tuple[str, str], str] = field(repr=False)
    """(length, role, ``"tool"`` or ``"again"``) -> Jinja source.

    There is no ``"tool"`` if no agent has tools, and no ``"again"`` if no agent has a second segment.
    """
    prompt_files: Mapping[tuple[str, str], Path] = field(repr=False)
    """The same keys -> file. An inherited prompt lies in the extended card's folder."""

    @property
    def answerer(self) -> str | None:
        """The agent whose last action is graded (``options: {agent: ...}`` of the grader).

        None: whoever closes the episode.
        """
        agent = self.grader_options.get("agent")
        return agent if agent in self.team.names else None

    @property
    def lengths(self) -> tuple[str, ...]:
        """The lengths of prompts that the card has: ``full``, and any others of ``LENGTHS``."""
        return tuple(length for length in LENGTHS if any(key[0] == length for key in self.prompts))


_KEYS = {
    "id",
    "title",
    "summary",
    "extends",
    "team",
    "tools",
    "order",
    "tasks",
    "grader",
    "coach",
    "scripted",
    "probe",
    "limits",
}


def read_card(folder: str | Path) -> Card:
    """Read and check a card folder. Raises CardError, which names the file, the key and the remedy."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CardError(f"the folder {str(folder)!r} does not exist: name a folder with a card.yaml.")
    raw, folders = merged(folder)
    where = folder / "card.yaml"
    _known(where, "card", raw, _KEYS)
    card_id = _get(where, raw, "id", str)
    if not _ID.fullmatch(card_id):
        raise CardError(f"{where}: id {card_id!r} must look like 'MyTask-v0'.")
    tools = read_tools(where, raw.get("tools"), folders)
    team = _team(where, _get(where, raw, "team", list), (PYTHON, *(entry.name for entry in tools)))
    order = read_order(raw.get("order"), team, where)
    tasks = _section(where, raw, "tasks", {"loader", "options"})
    grader = _section(where, raw, "grader", {"name", "options"})
    coach = _section(where, raw, "coach", {"rubric", "questions", "truth"}, optional=True)
    truth = _names(where, "coach.truth", coach.get("truth"))
    for name in truth:
        if name not in team.names:
            raise CardError(f"{where}: coach.truth names {name!r}, which is not in the team {team.names}.")
    rubric_name = _optional(where, coach, "rubric", str)
    rubric = find_file(folders, rubric_name, where, "coach.rubric") if rubric_name else None
    asked_name = _optional(where, coach, "questions", str)
    asked = find_file(folders, asked_name, where, "coach.questions") if asked_name else None
    probe = _optional(where, raw, "probe", str)
    prompt_files = _prompt_files(where, folders, order)
    options = _optional(where, tasks, "options", dict)
    if tasks.get("loader") == "jsonl":  # a card's own tasks lie in its folder
        options = {**options, "folder": str(_own_tasks(where, folder, options))}
    if tasks.get("loader") == "relations":
        facts = _optional(where, options, "facts", str) or "facts.yaml"
        options = {**options, "facts": str(find_file(folders, facts, where, "tasks.options.facts"))}
    return Card(
        id=card_id,
        title=_get(where, raw, "title", str),
        summary=_optional(where, raw, "summary", str),
        folder=folder,
        team=team,
        order=order,
        loader=from_card(where, "tasks.loader", _get(where, tasks, "loader", str), folders),
        loader_options=_options(where, options),
        grader=from_card(where, "grader.name", _get(where, grader, "name", str), folders),
        grader_options=_options(where, _optional(where, grader, "options", dict)),
        rubric=rubric,
        coach=asked,
        truth=truth,
        scripted=_scripted(where, raw, folders),
        probe=from_card(where, "probe", probe, folders) if probe else None,
        limits=_limits(where, _optional(where, raw, "limits", dict)),
        tools=tools,
        prompts={key: _read(path) for key, path in prompt_files.items()},
        prompt_files=prompt_files,
    )


def _own_tasks(where: Path, folder: Path, options: Mapping[str, Any]) -> Path:
    key, name = "tasks.options.folder", _optional(where, options, "folder", str) or "tasks"
    if not usable(name):
        raise CardError(f"{where}: {key} must name a folder, found {name!r:.200}.")
    tasks = inside(folder, folder / name, where, key)
    for file in tasks.glob("*.jsonl"):
        inside(folder, file, where, key)
    return tasks


def merged(folder: Path, seen: tuple[Path, ...] = ()) -> tuple[dict[str, Any], list[Path]]:
    """The keys of the card in ``folder``, merged into those of the card that it extends.

    Also the folders to search for its files, own first. Raises CardError.
    """
    where = folder / "card.yaml"
    if folder.resolve() in seen:
        raise CardError(f"{where}: 'extends' is circular.")
    text = _read(where)
    try:
        raw = read_yaml(text)
    except ValueError as error:
        raise CardError(f"{where} is not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise CardError(f"{where} must hold a mapping, found {type(raw).__name__}.")
    parent = _optional(where, raw, "extends", str)
    if not parent:
        return raw, [folder]
    if not usable(parent):
        raise CardError(f"{where}: 'extends' must name a card, found {parent!r:.200}.")
    beside = folder.parent / parent  # else a shipped card
    base, folders = merged(
        beside if beside.is_dir() else envs_registry.ROOT / parent, (*seen, folder.resolve())
    )
    return {**base, **raw}, [folder, *folders]


def _team(where: Path, rows: list[Any], known_tools: tuple[str, ...]) -> Team:
    known = {f.name for f in dataclasses.fields(AgentSpec)}
    agents = []
    for row in rows:
        if not isinstance(row, dict):
            raise CardError(f"{where}: every team entry must be a mapping, found {row!r}.")
        _known(where, "team", row, known)
        name = _get(where, row, "name", str)
        if not _NAME.fullmatch(name):
            raise CardError(f"{where}: agent name {name!r} must match [a-z]+_[0-9]+, like 'solver_0'.")
        if role_of(name) in _SPECIAL:
            raise CardError(f"{where}: agent name {name!r}: {role_of(name)}.jinja is another prompt's file.")
        turns = row.get("max_turns", 1)
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
            raise CardError(f"{where}: max_turns of {name} must be an integer >= 1, found {turns!r}.")
        tools, requires, reads = (
            _names(where, f"{key} of {name}", row.get(key)) for key in ("tools", "requires", "reads")
        )
        for tool in tools:
            if tool.partition(".")[0] not in known_tools or tool.startswith(f"{PYTHON}."):
                raise CardError(
                    f"{where}: tools of {name} are {tools}; {tool!r} is none of this card's: "
                    f"{', '.join(map(repr, known_tools))}. Describe it under 'tools'."
                    + nearest(tool, known_tools)
                )
        title = _optional(where, row, "title", str) or name
        agents.append(AgentSpec(name, title, turns, tools, requires, reads))
    names = [agent.name for agent in agents]
    if not names or len(set(names)) != len(names):
        raise CardError(f"{where}: the team needs at least one agent and distinct names, found {names}.")
    return Team(tuple(agents))


def _prompt_files(where: Path, folders: list[Path], order: Order) -> dict[tuple[str, str], Path]:
    """The files of every length for which there is one per role: ``full``, and each that the card begins."""
    used = (any(agent.tools for agent in order.team), any(n > 1 for n in order.most_segments.values()))
    special = {name for name, needed in zip(_SPECIAL, used, strict=True) if needed}
    names = sorted({agent.role for agent in order.team} | special)
    files: dict[tuple[str, str], Path] = {}
    for length in LENGTHS:
        paths = {name: f"prompts/{length}/{name}.jinja" for name in names}
        whole = all(any((folder / path).is_file() for folder in folders) for path in paths.values())
        if whole or length == "full" or (folders[0] / "prompts" / length).is_dir():
            files |= {
                (length, name): find_file(folders, path, where, "prompts") for name, path in paths.items()
            }
    return files


def _scripted(where: Path, raw: Mapping[str, Any], folders: list[Path]) -> str | None:
    name = _optional(where, raw, "scripted", str)
    if not name:
        return None
    spec = from_card(where, "scripted", name, folders)
    if ".py:" not in spec and not SCRIPTS.is_builtin(name) and name not in SCRIPTS.names():
        known = SCRIPTS.names()
        raise CardError(
            f"{where}: scripted={name!r} is not a script; choose from {', '.join(known)}, your own "
            "as 'file.py:Name', or none." + nearest(name, known)
        )
    return spec


def _limits(where: Path, raw: Mapping[str, Any]) -> Limits:
    try:
        return Limits(**Limits.checked("limits", raw))
    except OptionError as error:
        raise CardError(f"{where}: {error}") from None


def _section(
    where: Path, raw: Mapping[str, Any], key: str, known: set[str], *, optional: bool = False
) -> dict[str, Any]:
    value = raw.get(key, {} if optional else None)
    if not isinstance(value, dict):
        raise CardError(f"{where}: key {key!r} must be a mapping with {sorted(known)}, found {value!r}.")
    _known(where, key, value, known)
    return value


def _known(where: Path, section: str, raw: Mapping[str, Any], known: set[str]) -> None:
    for key in raw:
        if key not in known:
            raise CardError(f"{where}: unknown key {key!r} in {section}." + nearest(str(key), known))


_KINDS: dict[type, str] = {str: "string", list: "list", dict: "mapping"}


def _get(where: Path, raw: Mapping[str, Any], key: str, kind: type) -> Any:
    value = raw.get(key)
    if not isinstance(value, kind):
        raise CardError(f"{where}: key {key!r} must be a {_KINDS[kind]}, found {value!r}.")
    return value


def _optional(where: Path, raw: Mapping[str, Any], key: str, kind: type) -> Any:
    """The value of ``key``, or an empty one if it is absent or blank."""
    return kind() if raw.get(key) is None else _get(where, raw, key, kind)


def _options(where: Path, options: Mapping[Any, Any]) -> Mapping[str, Any]:
    for key in options:
        if not isinstance(key, str):
            raise CardError(f"{where}: option names must be strings, found {key!r}.")
    return options


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CardError(f"{path} does not exist: name a folder with a card.yaml.") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an invalid file name
        raise CardError(f"{path} cannot be read: {error}") from None


def _names(where: Path, key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise CardError(f"{where}: {key} must be a list of names, found {value!r}.")
    return tuple(value)
