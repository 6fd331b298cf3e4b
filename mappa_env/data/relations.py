"""Questions about documents, made from the relations between their subjects.

A question follows a chain of relations: "In which month is the festival that Ostrel holds held?" Whoever
answers it has to find the document of every link. The documents themselves are a tool's business.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mappa_env.data.base import ListTaskSet
from mappa_env.data.files import regular
from mappa_env.data.store import SPLITS, is_split
from mappa_env.errors import DataError, OptionError
from mappa_env.grading.text import plain
from mappa_env.json_and_yaml import read_yaml
from mappa_env.types import Task

METRIC = "exact_text"
_EVAL = 4
"""One question in so many is held out, by the digest of its id."""


class _World(NamedTuple):
    """``questions``, ``phrases``: relation -> text with ``{}``. ``documents``: name -> (path, facts)."""

    questions: Mapping[str, str]
    phrases: Mapping[str, str]
    documents: Mapping[str, tuple[str, Mapping[str, str]]]


class _Link(NamedTuple):
    """A step of a chain: the document that says so, the relation and its value."""

    document: str
    relation: str
    value: str


def load(split: str, *, facts: str, hops: int = 3) -> ListTaskSet:
    """The questions of ``split`` with chains of 1 to ``hops`` relations from the YAML file ``facts``.

    The truth of a task: ``answer``, ``documents`` (those that answer it) and ``subjects`` (those on the
    way). Raises OptionError, DataMissingError, DataError.
    """
    if not is_split(split):
        raise OptionError(f"tasks={split!r}: these questions are generated; use one of {', '.join(SPLITS)}.")
    if type(hops) is not int or not 1 <= hops <= 4:
        raise OptionError(f"hops={hops!r} must be an integer from 1 to 4.")
    return ListTaskSet("relations", split, [task for task in _tasks(facts, hops) if task.split == split])


@functools.lru_cache(maxsize=8)
def _tasks(facts: str, hops: int) -> tuple[Task, ...]:
    world = _read(Path(facts))
    chains = [chain for name in world.documents for chain in _chains(world, name, (name,), hops)]
    return tuple(_task(world, start, chain) for start, chain in chains)


def _chains(
    world: _World, name: str, seen: tuple[str, ...], hops: int
) -> Iterator[tuple[str, tuple[_Link, ...]]]:
    """(first subject, links) of every chain from ``name``. None comes to a subject twice."""
    document, known = world.documents[name]
    for relation, value in known.items():
        link = _Link(document, relation, value)
        if value not in seen:
            yield seen[0], (link,)
        if hops > 1 and value in world.documents and value not in seen and relation in world.phrases:
            for _, rest in _chains(world, value, (*seen, value), hops - 1):
                yield seen[0], (link, *rest)


def _task(world: _World, start: str, chain: tuple[_Link, ...]) -> Task:
    subject = start
    for link in chain[:-1]:
        subject = world.phrases[link.relation].replace("{}", subject)
    path = [link.relation for link in chain]
    task_id = "/".join([Path(chain[0].document).stem, *path])
    drawn = int(hashlib.sha256(task_id.encode()).hexdigest(), 16) % _EVAL
    return Task(
        id=task_id,
        prompt=world.questions[path[-1]].replace("{}", subject),
        metric=METRIC,
        compact=f"{start}: {' '.join(path)}",
        topic=f"{len(chain)}-hop",
        split="eval" if drawn == 0 else "train",
        truth={
            "answer": chain[-1].value,
            "documents": [link.document for link in chain],
            "subjects": [start, *(link.value for link in chain[:-1])],
        },
        meta={"start": start, "path": path},
    )


def _read(path: Path) -> _World:
    try:
        raw = read_yaml(regular(path).read_bytes())
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path} is not valid YAML: {error}") from None
    relations, documents = (
        raw.get(key) if isinstance(raw, dict) else None for key in ("relations", "documents")
    )
    if not isinstance(relations, dict) or not isinstance(documents, dict):
        raise DataError(f"{path} must hold the mappings 'relations' and 'documents'.")
    for name, row in relations.items():
        texts = [row.get("question"), row.get("phrase", "{}")] if isinstance(row, dict) else [None]
        if not all(isinstance(text, str) and text.count("{}") == 1 for text in texts):
            raise DataError(
                f"{path}: relations.{name} needs 'question', and maybe 'phrase', each with one {{}}."
            )
    for name in (*relations, *documents):
        if not isinstance(name, str):
            raise DataError(f"{path}: the name {name!r} is not a text: put it in quotation marks.")
    found = [_document(path, name, row, relations) for name, row in documents.items()]
    _distinct(path, "file names", [Path(name).stem for _, (name, _) in found])  # ids begin with them
    _distinct(path, "values of 'name'", [name for name, _ in found])
    return _World(
        {name: row["question"] for name, row in relations.items()},
        {name: row["phrase"] for name, row in relations.items() if "phrase" in row},
        dict(found),
    )


def _distinct(path: Path, what: str, names: Sequence[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{path}: documents need different {what}, but {twice[0]!r} occurs more than once.")


def _document(
    path: Path, name: str, row: Any, relations: Mapping[str, Any]
) -> tuple[str, tuple[str, Mapping[str, str]]]:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise DataError(f"{path}: documents.{name} must be a mapping with 'name', found {row!r:.80}.")
    facts = {key: value for key, value in row.items() if key != "name"}
    for key, value in facts.items():
        if key not in relations:
            raise DataError(f"{path}: documents.{name} has {key!r}, which is not under 'relations'.")
        if type(value) not in (str, int, float) or not plain(str(value)):
            raise DataError(
                f"{path}: documents.{name}.{key} must be a text or a number, found {value!r:.80}."
            )
    return row["name"], (name, {key: str(value) for key, value in facts.items()})
