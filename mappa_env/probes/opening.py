"""Opens the files of a tabular team in the sandbox: tables as data, before any code of an agent runs."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import NamedTuple

from mappa_env.errors import WorkspaceError
from mappa_env.grading.metrics import METRICS
from mappa_env.probes.base import Site
from mappa_env.probes.baseline import Allowed, baseline
from mappa_env.probes.exports import Exports
from mappa_env.probes.formats import HEAD, format_of, packing_of, why_unknown
from mappa_env.probes.inside.exporter import MAX_BYTES
from mappa_env.probes.inside.reader import COMPRESSED, JOBLIB_MARK
from mappa_env.probes.plain import Record
from mappa_env.probes.predictions import Said
from mappa_env.probes.program import JOBLIB, OUTPUTS, Question, load_table, two_wordings
from mappa_env.probes.submitting import Submission
from mappa_env.types import FileChange, Task
from mappa_env.workspace.workspace import Workspace

HEAD_ROWS = 2000
"""Rows that comparisons of values look at."""
MOST = 1000
"""How many times the rows of test.csv X_test may have and still test a model."""
TABLES = ("X_train.pkl", "y_train.pkl", "X_test.pkl")
MODEL = "model.pkl"
_ROWS = ("tuple", "list")
_HOLDERS = (*_ROWS, "dict", "OrderedDict", "defaultdict", "Bunch")
"""Kinds of things that hold others: what is beside a model may have to be used with it."""
_PICKLES = (".pkl", ".pickle", ".joblib")
_MOST_BESIDE = 2
"""Files beside a model that are tried: a program each."""
GIVEN = "test.csv"
"""The task's file that whoever submits predictions reads."""

_Key = tuple[str, ...]


class File(NamedTuple):
    """What is known of one file.

    ``unknown``: why nobody can tell what it holds (empty: ``record`` does). ``error``: why it is no file.
    ``form``: see ``format_of``; ``packing``: see ``packing_of``.
    """

    exists: bool = True
    unknown: str = ""
    error: str = ""
    record: Record | None = None
    form: str = ""
    packing: str = ""


class Asked(NamedTuple):
    """What a model ``said``, and what it said when it was loaded ``again``, by another program.

    ``plain``: ``pickle.load`` loads it, as the prompts say. ``table``: the file that it predicted.
    ``inside``: the kind of thing in which it lies beside others, such as an encoder or more models; empty: it
    is alone. ``beside``: what it says of a table that went through a file of its writer's.
    """

    said: Said
    again: Said
    plain: bool = True
    table: str = ""
    inside: str = ""
    beside: Beside | None = None


class Beside(NamedTuple):
    """What a model ``said``, and what it said ``again``, of the table that went through ``file`` first.

    That is a fitted transformer, or a list of columns, which its writer handed on with it.
    """

    file: str
    said: Said
    again: Said


class Opened(NamedTuple):
    """The four files by name, and what the model says (``asked`` None: it was not asked).

    ``allowed``: what the tables allow, if the host can tell.
    """

    files: dict[str, File]
    asked: Asked | None = None
    allowed: Allowed | None = None


class Opener:
    """Remembers what files yielded while they and the workspace stay. Used by one thread at a time."""

    def __init__(self) -> None:
        self._workspace: weakref.ref[Workspace] | None = None
        self._tables: dict[_Key, Record] = {}
        self._models: dict[_Key, Asked] = {}
        self._allowed: dict[_Key, Allowed | None] = {}

    def open(self, site: Site, rows: int | None = None) -> Opened:
        """Read what is new since the last call. ``rows``: of test.csv, if known. Raises UnavailableError."""
        if self._workspace is None or self._workspace() is not site.workspace:
            self._workspace = weakref.ref(site.workspace)
            self._tables, self._models, self._allowed = {}, {}, {}
        files = {name: _found(site.workspace, name) for name in (*TABLES, MODEL)}
        readable = [
            name for name, file in files.items() if file.exists and not file.unknown and not file.error
        ]
        keys = {name: _key(site.workspace, name) for name in readable}
        tables = [name for name in readable if name != MODEL]
        new = [name for name in tables if keys[name] not in self._tables]
        model = (*keys.get(MODEL, ()), *_all(site.workspace))
        ask = MODEL in readable and (site.again or model not in self._models)
        if new or ask:
            with Exports(site) as exports, ThreadPoolExecutor(1) as pool:
                for name, record in zip(new, exports.tables(new), strict=True):
                    self._tables[keys[name]] = _tried(exports, site, name, record)
                if ask:  # the host computes what the tables allow while the sandbox computes
                    pool.submit(self._fit, keys)
                    tried = {name: self._tables[keys[name]] for name in tables}
                    self._models[model] = _asked(exports, site, tried, rows)
        for name in tables:
            record = self._tables[keys[name]]
            files[name] = files[name]._replace(unknown=record.error if record.unusual else "", record=record)
        asked = self._models[model] if MODEL in readable else None
        return Opened(files, asked, self._fit(keys))

    def _fit(self, keys: dict[str, _Key]) -> Allowed | None:
        """What the tables allow; None if one is missing, or no forest can be fitted to them."""
        records = [self._tables.get(keys.get(name, ())) for name in TABLES]
        x, y, test = (None if record is None or record.unusual else record.table for record in records)
        if x is None or y is None or test is None:
            return None
        key = tuple(part for name in TABLES for part in keys[name])
        if key not in self._allowed:
            self._allowed[key] = baseline(x, y, test)
        return self._allowed[key]


def _asked(exports: Exports, site: Site, tables: Mapping[str, Record], rows: int | None) -> Asked:
    """What the model says, and what it says to another program, which asks as one does that submits.

    A table with very many times the ``rows`` of test.csv is no test of a model: it would only exhaust it.
    Without a readable X_test of as many rows as test.csv, the model is tried on X_train. A reader of pickles
    comes first, also to a joblib file, which may show it something else than joblib.
    """
    workspace = site.workspace
    question = Question(MODEL, shares=_takes_shares(site.task))
    submits = Submission(MODEL, given=GIVEN if GIVEN in workspace.present else "")
    test = tables.get(TABLES[2])
    fits = test is not None and test.table is not None and (rows is None or test.table.rows == rows)
    known = [name for name in (TABLES[0], TABLES[2]) if name in tables and tables[name].table is not None]
    file = TABLES[2] if fits or known == [TABLES[2]] else TABLES[0]
    seen = tables.get(file)
    if seen is not None and seen.table is not None and (not rows or seen.table.rows <= MOST * rows):
        form = format_of(workspace.head(file, HEAD))
        question = question._replace(table=load_table(file, form, seen.kind))
        submits = submits._replace(table=load_table(file, form, seen.kind, plain=seen.plain))
    one, other = two_wordings(site.seed)
    content = workspace.read(MODEL, MAX_BYTES)
    plain, marked = not content.startswith(COMPRESSED), JOBLIB_MARK[1].encode() in content
    if marked or not plain:
        other = other._replace(loader=JOBLIB)
    if not plain:
        one = one._replace(loader=JOBLIB)
    said = exports.ask(question, one)
    if plain and marked and not said.loads and not said.late:
        plain, one = False, one._replace(loader=JOBLIB)
        said = exports.ask(question, one)
    inside = ""
    if said.kind in _HOLDERS and not said.has_predict:
        part = exports.ask(question._replace(part=True), one)
        if part.has_predict and len(part.places) == 1:
            inside = said.kind
            place = f"{{}}[{part.places[0]}]" if inside in _ROWS else f"list({{}}.values())[{part.places[0]}]"
            said, question, submits = part, question._replace(part=True), submits._replace(place=place)
        elif part.places:
            inside = said.kind  # nobody can tell what several models are for
    if said.predictions is None and "DMatrix" in said.error:  # a Booster of xgboost
        question, submits = question._replace(matrix=True), submits._replace(matrix=True)
        said = exports.ask(question, one)
    if question.shares and said.has_shares:
        named = "" if said.probabilities is None else said.probabilities.names[0]
        submits = submits._replace(method="predict_proba", outputs=named.startswith(OUTPUTS))
    again = exports.submit(submits, other, said).with_names_of(said)
    asked = Asked(said, again, plain=plain, table=file, inside=inside)
    if inside or not question.table or not said.has_predict:
        return asked
    for name in _beside(site):
        through = exports.ask(question._replace(beside=name), one)
        if through.predictions is not None:
            again = exports.submit(submits._replace(beside=name), other, through).with_names_of(through)
            return asked._replace(beside=Beside(name, through, again))
        if through.late:
            break
    return asked


def _beside(site: Site) -> list[str]:
    """The files with which the model's writer may mean it to be used: its newest pickles and lists."""
    present = site.workspace.present
    known = {*site.task.files, *TABLES, MODEL}
    own = [
        change
        for change in present.values()
        if change.agent == present[MODEL].agent and change.kind == "file" and change.path not in known
    ]
    own.sort(key=lambda change: (-change.step, change.path))
    return [change.path for change in own if _may_prepare(site.workspace, change)][:_MOST_BESIDE]


def _may_prepare(workspace: Workspace, change: FileChange) -> bool:
    suffix = PurePosixPath(change.path).suffix
    try:
        form = format_of(workspace.head(change.path, HEAD))
    except WorkspaceError:
        return False
    fits = form == "JSON" if suffix == ".json" else suffix in _PICKLES and form in ("pickle", "joblib")
    return fits and 0 < change.size <= MAX_BYTES


def _takes_shares(task: Task) -> bool:
    metric = METRICS.get(task.metric)
    return metric is not None and metric.takes in ("score", "probability")


def _tried(exports: Exports, site: Site, name: str, record: Record) -> Record:
    """``record``, or why nobody loads a pickle of an unusual kind: what it names is not there, say."""
    if not record.unusual or format_of(site.workspace.head(name, HEAD)) != "pickle":
        return record
    error = exports.refused(name)
    return dataclasses.replace(record, error=error, unusual=False) if error else record


def _found(workspace: Workspace, name: str) -> File:
    """What the host sees of a file without opening more than its first bytes."""
    entry = workspace.present.get(name)
    if entry is None:
        return File(exists=False)
    if entry.kind != "file":
        return File(error=f"it is a {entry.kind}, not a file")
    try:
        head = workspace.head(name, HEAD)
        return File(unknown=why_unknown(head, entry.size), form=format_of(head), packing=packing_of(head))
    except WorkspaceError as error:
        return File(error=str(error))


def _key(workspace: Workspace, name: str) -> _Key:
    entry = workspace.present[name]
    return name, entry.sha256, str(entry.step)


def _all(workspace: Workspace) -> _Key:
    """Everything that a model may read while it loads and predicts."""
    return tuple(part for name in sorted(workspace.present) for part in _key(workspace, name))
