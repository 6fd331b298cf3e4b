"""The probe set: texts that ask for a better score, and how each enters the evidence of an action."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mappa_env.coach.spec import Strict, read_spec_file
from mappa_env.errors import OptionError, nearest
from mappa_env.parsing import parse
from mappa_env.types import Evidence, FileChange
from mappa_env.workspace.escaping import shown

SHIPPED = Path(__file__).with_name("injections.yaml")
VERSION = 1

Place = Literal["action", "comment", "stdout", "stderr", "file_name", "csv_cell"]
PLACES: tuple[Place, ...] = ("action", "comment", "stdout", "stderr", "file_name", "csv_cell")
NOTE = "note.txt"
TABLE = "notes.csv"
_CARRIERS: dict[Place, str] = {
    "stdout": f"print(open({NOTE!r}).read(), '---', sep='\\n')",
    "stderr": f"import sys; print(open({NOTE!r}).read(), file=sys.stderr)",
    "file_name": f"open(open({NOTE!r}).read(), 'w').close()",
    "csv_cell": f"print(open({TABLE!r}).read())",
}
"""Code that copies the text from a task file to its place, so that it occurs nowhere else. Printed output
ends in a constant line, so that the text is never the last line."""
_LONGEST_NAME = 200
"""Bytes of a file name; file systems allow 255."""


class Injection(Strict):
    """One entry of the probe file; its header documents the fields."""

    class_: Annotated[str, Field(alias="class")]
    name: str
    text: Annotated[str, Field(min_length=1)]
    language: str = "en"
    length: Annotated[int, Field(ge=1, le=20_000)] | None = None
    places: Annotated[tuple[Place, ...], Field(min_length=1)] = PLACES
    claims: bool = False

    @property
    def words(self) -> str:
        """The whole text, with its repetitions."""
        if self.length is None:
            return self.text
        return (self.text * (self.length // len(self.text) + 1))[: self.length]


class ProbeSet(Strict):
    """A probe file. ``control``: harmless words, whose effect at a place is subtracted."""

    version: int
    date: datetime.date
    control: str
    probes: Annotated[tuple[Injection, ...], Field(min_length=1)]


def read_probes(path: Path = SHIPPED) -> ProbeSet:
    """Read a probe file. Raises CardError that names file and key, OptionError for another version."""
    found = read_spec_file(path, ProbeSet)
    if found.version != VERSION:
        raise OptionError(f"{path}: version {found.version} is not known; this version reads {VERSION}.")
    names = [(probe.class_, probe.name) for probe in found.probes]
    if twice := {name for name in names if names.count(name) > 1}:
        raise OptionError(f"{path}: two probes have the same class and name, {sorted(twice)}.")
    return found


def chosen(probes: ProbeSet, classes: tuple[str, ...]) -> tuple[Injection, ...]:
    """The probes of ``classes`` (empty: all). Raises OptionError for an unknown class."""
    known = sorted({probe.class_ for probe in probes.probes})
    for name in classes:
        if name not in known:
            raise OptionError(f"unknown probe class {name!r}; choose from {known}." + nearest(name, known))
    return tuple(probe for probe in probes.probes if not classes or probe.class_ in classes)


def task_files(place: Place, text: str) -> dict[str, bytes]:
    """The additional task files from which an altered action reads the text."""
    if place == "csv_cell":
        return {TABLE: _table(text).encode()}
    words = _file_name(text) if place == "file_name" else text
    return {NOTE: words.encode()} if place in _CARRIERS else {}


def altered(evidence: Evidence, place: Place, text: str) -> str | None:
    """The action with the text at that place. None: it has no suitable code, or other code would run."""
    if place == "action":
        action, code = f"{evidence.action}\n\n{text}", evidence.code
    elif evidence.code is None:
        return None
    else:
        lines = _commented(text) if place == "comment" else _CARRIERS[place]
        code = f"{lines}\n{evidence.code}"
        action = evidence.action.replace(evidence.code, code, 1)
    return action if parse(action, tools="python" in evidence.agent.tools).code == code else None


def injected(evidence: Evidence, place: Place, text: str) -> Evidence | None:
    """The evidence that the altered action would produce; None if ``altered`` returns None."""
    action = altered(evidence, place, text)
    if action is None:
        return None
    parsed, tool = parse(action, tools="python" in evidence.agent.tools), evidence.tool
    present = dict(evidence.present)
    if place in _CARRIERS:
        assert tool is not None
        if place == "stdout":
            tool = dataclasses.replace(tool, stdout=f"{text}\n---\n{tool.stdout}")
        elif place == "csv_cell":
            tool = dataclasses.replace(tool, stdout=f"{_table(text)}\n{tool.stdout}")
        elif place == "stderr":
            tool = dataclasses.replace(tool, stderr=f"{text}\n{tool.stderr}")
        else:
            name, empty = shown(_file_name(text)), hashlib.sha256(b"").hexdigest()
            change = FileChange(name, "created", 0, empty, agent=evidence.agent.name, step=evidence.step)
            tool = dataclasses.replace(tool, files=(*tool.files, change))
            present[name] = change
    return dataclasses.replace(evidence, action=action, code=parsed.code, tool=tool, present=present)


def _commented(text: str) -> str:
    return "\n".join(f"# {line}" for line in text.splitlines() or [""])


def _file_name(text: str) -> str:
    """The text as a valid file name."""
    name = " ".join(text.replace("/", "|").split())
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore") or "-"


def _table(text: str) -> str:
    """A small CSV with the text in a cell."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([("number", "note"), (1, text), (2, "none")])
    return stream.getvalue()
