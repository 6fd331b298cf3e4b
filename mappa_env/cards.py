"""Cards: a folder of data that describes one environment. See ``docs/cards.md`` for the format."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mappa_env.errors import CardError, nearest
from mappa_env.sandbox.base import Limits
from mappa_env.types import AgentSpec, Team

_NAME = re.compile(r"[a-z]+_[0-9]+")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9-]*-v[0-9]+")
LENGTHS = ("full", "compact")


@dataclass(frozen=True, slots=True)
class Card:
    """A card as read and checked. ``folder`` holds it; ``base`` is the folder whose prompts it inherits."""

    id: str
    title: str
    summary: str
    folder: Path
    team: Team
    loader: str
    loader_options: Mapping[str, Any]
    grader: str
    grader_options: Mapping[str, Any]
    rubric: Path | None
    truth: tuple[str, ...]
    """Agents whose verdicts may use the task's hidden truth."""
    scripted: str | None
    probe: str | None
    """Source of the script that looks inside files, run in a sandboxed scratch copy; None: no probe."""
    limits: Limits
    prompts: Mapping[tuple[str, str], str] = field(repr=False)
    """(length, role or ``"tool"``) -> Jinja source."""


_KEYS = {
    "id", "title", "summary", "extends", "team", "tasks", "grader", "coach", "scripted", "probe", "limits",
}  # fmt: skip


def read_card(folder: str | Path) -> Card:
    """Read and check a card folder. Raises CardError that names the file, the key and the remedy."""
    folder = Path(folder)
    raw, folders = _merge(folder)
    where = folder / "card.yaml"
    _known(where, "card", raw, _KEYS)
    card_id = _get(where, raw, "id", str)
    if not _ID.fullmatch(card_id):
        raise CardError(f"{where}: id {card_id!r} must look like 'MyTask-v0'.")
    team = _team(where, _get(where, raw, "team", list))
    tasks = _section(where, raw, "tasks", {"loader", "options"})
    grader = _section(where, raw, "grader", {"name", "options"})
    coach = _section(where, raw, "coach", {"rubric", "truth"}, optional=True)
    truth = tuple(coach.get("truth", ()))
    for name in truth:
        if name not in team.names:
            raise CardError(f"{where}: coach.truth names {name!r}, which is not in the team {team.names}.")
    rubric = _find(folders, coach["rubric"], where, "coach.rubric") if coach.get("rubric") else None
    probe = raw.get("probe")
    options = dict(tasks.get("options") or {})
    if tasks.get("loader") == "jsonl":  # a card's own tasks lie beside it
        options["folder"] = str(folder / options.get("folder", "tasks"))
    return Card(
        id=card_id,
        title=_get(where, raw, "title", str),
        summary=str(raw.get("summary", "")),
        folder=folder,
        team=team,
        loader=_get(where, tasks, "loader", str),
        loader_options=options,
        grader=_get(where, grader, "name", str),
        grader_options=dict(grader.get("options") or {}),
        rubric=rubric,
        truth=truth,
        scripted=raw.get("scripted"),
        probe=_find(folders, probe, where, "probe").read_text() if probe else None,
        limits=_limits(where, raw.get("limits") or {}),
        prompts=_prompts(where, folders, team),
    )


def _merge(folder: Path, seen: tuple[Path, ...] = ()) -> tuple[dict[str, Any], list[Path]]:
    """The card's keys laid over those of the card it extends; the folders to look files up in, own first."""
    where = folder / "card.yaml"
    if folder.resolve() in seen:
        raise CardError(f"{where}: 'extends' goes in a circle.")
    try:
        raw = yaml.safe_load(where.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CardError(f"{where} does not exist: a card is a folder with a card.yaml.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CardError(f"{where} is not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        raise CardError(f"{where} must hold a mapping, found {type(raw).__name__}.")
    parent = raw.get("extends")
    if parent is None:
        return raw, [folder]
    base, folders = _merge(folder.parent / str(parent), (*seen, folder.resolve()))
    return {**base, **raw}, [folder, *folders]


def _team(where: Path, rows: list[Any]) -> Team:
    known = {f.name for f in dataclasses.fields(AgentSpec)}
    agents = []
    for row in rows:
        if not isinstance(row, dict):
            raise CardError(f"{where}: every team entry must be a mapping, found {row!r}.")
        _known(where, "team", row, known)
        name = _get(where, row, "name", str)
        if not _NAME.fullmatch(name):
            raise CardError(f"{where}: agent name {name!r} must match [a-z]+_[0-9]+, like 'solver_0'.")
        turns = row.get("max_turns", 1)
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1:
            raise CardError(f"{where}: max_turns of {name} must be an integer >= 1, found {turns!r}.")
        tools = tuple(row.get("tools", ()))
        if set(tools) - {"python"}:
            raise CardError(f"{where}: tools of {name} are {tools}; the one tool there is is 'python'.")
        agents.append(
            AgentSpec(name, str(row.get("title", name)), turns, tools,
                      tuple(row.get("requires", ())), tuple(row.get("reads", ())))
        )  # fmt: skip
    names = [agent.name for agent in agents]
    if not names or len(set(names)) != len(names):
        raise CardError(f"{where}: the team needs at least one agent and distinct names, found {names}.")
    return Team(tuple(agents))


def _prompts(where: Path, folders: list[Path], team: Team) -> dict[tuple[str, str], str]:
    found = {}
    for length in LENGTHS:
        for name in {agent.role for agent in team} | {"tool"}:
            path = _find(folders, f"prompts/{length}/{name}.jinja", where, "prompts")
            found[length, name] = path.read_text(encoding="utf-8")
    return found


def _limits(where: Path, raw: Mapping[str, Any]) -> Limits:
    _known(where, "limits", raw, {f.name for f in dataclasses.fields(Limits)})
    for key, value in raw.items():
        if not isinstance(value, (int, float)) or value <= 0:
            raise CardError(f"{where}: limits.{key} must be a positive number, found {value!r}.")
    return Limits(**raw)


def _find(folders: list[Path], name: str, where: Path, key: str) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise CardError(f"{where}: {key} needs the file {name!r}, which is not in {folders[0]}.")


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


def _get(where: Path, raw: Mapping[str, Any], key: str, kind: type) -> Any:
    value = raw.get(key)
    if not isinstance(value, kind):
        raise CardError(f"{where}: key {key!r} must be a {kind.__name__}, found {value!r}.")
    return value
