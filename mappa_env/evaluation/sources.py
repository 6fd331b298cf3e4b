"""What an evaluation's results depend on besides its tasks: the files of its cards, the coach's recording."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mappa_env.cards import Card, merged
from mappa_env.data.content import digest
from mappa_env.errors import EvaluationError

COACH = " of the coach"
"""The end of the name of what only a coach reads, so that it changes rewards and no outcome."""
_UNUSED = ("title", "summary", "extends")
"""Keys of a card that change no episode; what the extended card says is a part of the merged one."""


def sources_of(card: Card, options: Mapping[str, Any]) -> dict[str, str]:
    """Name of a source -> digest of what it says. ``options``: keywords of the environment."""
    return {name: digest(value) for name, value in _sources(card, options)}


def check_sources(where: object, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises EvaluationError that names what changed ``before`` ``where`` is gone on with."""
    names = dict.fromkeys([*before, *now])
    if changed := [name for name in names if before.get(name) != now.get(name)]:
        raise EvaluationError(
            f"{where} was begun with another {', '.join(changed)}: restore that and run the same command "
            "again, or choose another --out."
        )


def rules_of(sources: Mapping[str, str], *, coached: bool) -> str:
    """A digest of what an outcome depends on; ``coached``: agents see what the coach says. Empty: unknown."""
    named = {name: each for name, each in sources.items() if coached or not name.endswith(COACH)}
    return digest(named) if named else ""


def _sources(card: Card, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    raw, _ = merged(card.folder)
    yield "card.yaml", {key: value for key, value in raw.items() if key not in _UNUSED}
    length = options.get("prompts", "full")
    for (own, role), text in sorted(card.prompts.items()):
        if own == length:
            yield f"prompts/{own}/{role}.jinja", text
    coach = options.get("coach", "off")
    name = str(coach["name"] if isinstance(coach, Mapping) else coach)
    if name != "off":
        templates = sorted(card.coach.parent.glob("*.jinja")) if card.coach else []
        files = [file for file in (card.rubric, card.coach, *templates) if file is not None]
        yield from ((f"{file.name}{COACH}", file) for file in files)
    if name.startswith("replay:"):
        yield f"recording{COACH}", _recorded(Path(name.removeprefix("replay:")))
    for entry in card.tools:
        if entry.use == "search":
            yield f"documents of {entry.name}", _documents(Path(entry.options["folder"]))
    used = (card.loader, card.grader, card.scripted, *(entry.use for entry in card.tools))
    yield from ((file.name, file) for file in _python(used))
    yield from ((f"{file.name}{COACH}", file) for file in _python((card.probe, name)))


def _python(specs: Iterable[str | None]) -> list[Path]:
    """The files of parts that are named ``file.py:Name``."""
    files = (Path((spec or "").rpartition(":")[0]) for spec in dict.fromkeys(specs))
    return [file for file in files if file.suffix == ".py"]


def _recorded(path: Path) -> list[Any]:
    """What the recording says; its pages may be written again without a change of that."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
        queries = (
            "SELECT name, value FROM meta ORDER BY name",
            "SELECT key, outcome FROM calls ORDER BY key",
        )
        return [file.execute(query).fetchall() for query in queries]


def _documents(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
