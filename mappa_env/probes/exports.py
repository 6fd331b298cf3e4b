"""Runs programs as actions in the workspace, which is then as it was before."""

from __future__ import annotations

import base64
import dataclasses
import functools
import importlib.util
import marshal
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from mappa_env.errors import WorkspaceError
from mappa_env.grading.metrics import METRICS
from mappa_env.probes.base import Site
from mappa_env.probes.inside import exporter, reader
from mappa_env.probes.plain import Record, records
from mappa_env.probes.predictions import Said, failure, said, submitted
from mappa_env.probes.program import Question, Wording, loading, program
from mappa_env.probes.submitting import Submission, submitting
from mappa_env.sandbox.base import Limits
from mappa_env.types import Task, ToolResult

Found = TypeVar("Found")
LABELS, SUBMITTED = "y_train.pkl", "submission.csv"
_OUTPUT_MB = 64
"""MiB of exported tables, and of each file of predictions."""
_BRIEF_S = 10.0
"""The most seconds for what may not matter: why a file does not load, and files beside a model."""


class UnavailableError(Exception):
    """The sandbox was unavailable."""


class Exports:
    """Runs programs where the next agent's code will run: same folder, files, user, environment, limits.

    What a file changes in the workspace while it is loaded is undone, from a copy made at the start. Use it
    as a context.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._before = site.workspace.copy()

    def __enter__(self) -> Exports:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._before.remove()

    def tables(self, files: Sequence[str]) -> list[Record]:
        """One record per file, in order. If the process died early, the rest say how it ended.

        Raises UnavailableError.
        """
        if not files:
            return []
        limits = dataclasses.replace(self._site.limits, output_kb=_OUTPUT_MB << 10, output_cap_mb=_OUTPUT_MB)
        mark = secrets.token_hex(8)
        code = _exporter(files, [_labels(self._site.task) if file == LABELS else "" for file in files], mark)
        result, found = self._run(code, limits, lambda ran: records(ran.stdout, mark))
        ended = Record(error=f"the process that loaded it ended with {result.status}")
        return [found.get(number, ended) for number in range(len(files))]

    def refused(self, file: str) -> str:
        """The exception that all loaders of tables raise; empty if one loads ``file``, or takes too long.

        It runs the file's code, so its success says nothing. Raises UnavailableError.
        """
        limits = dataclasses.replace(self._site.limits, wall_s=min(self._site.limits.wall_s, _BRIEF_S))
        result, error = self._once(loading(file), limits, failure)
        return error if result.status == "error" else ""

    def ask(self, question: Question, wording: Wording) -> Said:
        """What a model says. Raises UnavailableError.

        If it takes too long, or fails over what the metric does not take, it is asked only for the rest.
        """
        said = self._ask(question, wording)
        if question.beside and said.late:
            return said
        takes_shares = question.shares and said.has_shares
        if said.late or (said.error and said.asked and (said.predictions is None) == takes_shares):
            question = question._replace(short=True)
            said = self._ask(question, wording)
        if question.short:  # every row of the probabilities travels
            said = dataclasses.replace(said, predictions=said.predictions or said.probabilities, short=True)
        elif said.error and takes_shares:
            said = dataclasses.replace(said, predictions=None)  # it lacks what the metric takes
        return said

    def submit(self, submission: Submission, wording: Wording, first: Said) -> Said:
        """What a model says to one that submits, after the ``first`` program. Raises UnavailableError.

        It writes where submissions are written, over one that is there, which comes back afterwards.
        """
        there = self._site.workspace.present.get(SUBMITTED)
        plain = there is None or there.kind == "file"
        name = SUBMITTED if plain else f"out_{secrets.token_hex(4)}.csv"
        old = self._left(name) if there is not None and plain else None
        loads, predicts = submitting(submission._replace(file=name), wording)
        asked, shares = bool(predicts), submission.method != "predict"

        def read(ran: ToolResult) -> Said:
            left = self._left(name)
            left = None if left == old else left  # it ended before it wrote
            return submitted(ran, left, first, asked=asked, loads=len(loads), shares=shares)

        return self._run("\n".join([*loads, *predicts]) + "\n", self._site.limits, read)[1]

    def _ask(self, question: Question, wording: Wording) -> Said:
        # Nobody can have put something in the way of names that nobody knew.
        names = [f"out_{secrets.token_hex(4)}.csv" for _ in range(2)]
        code = program(question._replace(predictions=names[0], probabilities=names[1]), wording)

        def read(ran: ToolResult) -> Said:
            return said(ran, self._left(names[0]), self._left(names[1]), asked=bool(question.table))

        limits = self._site.limits
        if question.beside:  # what hangs there may have nothing to do with the model
            limits = dataclasses.replace(limits, wall_s=min(limits.wall_s, _BRIEF_S))
        return self._once(code, limits, read)[1]

    def _left(self, name: str) -> bytes | None:
        try:
            return self._site.workspace.read(name, _OUTPUT_MB << 20)
        except WorkspaceError:
            return None

    def _run(
        self, code: str, limits: Limits, read: Callable[[ToolResult], Found]
    ) -> tuple[ToolResult, Found]:
        """Run ``code`` and ``read`` what it left; again if it took too long.

        A busy host looks like a file that hangs.
        """
        result, found = self._once(code, limits, read)
        return self._once(code, limits, read) if result.status == "timeout" else (result, found)

    def _once(
        self, code: str, limits: Limits, read: Callable[[ToolResult], Found]
    ) -> tuple[ToolResult, Found]:
        """Run ``code``, ``read`` what it left, and undo its changes."""
        site = self._site
        before = site.workspace.snapshot
        result = site.sandbox.run(site.workspace, code, limits, seed=site.seed)
        found = read(result)
        after = site.workspace.snapshot
        if after.skipped or site.workspace.changes(before, after):
            site.workspace.restore(self._before)
            self._before = site.workspace.copy()
        if result.status == "unavailable":
            raise UnavailableError(result.stderr)
        return result, found


def _labels(task: Task) -> str:
    """What a model that is fitted to a task's labels takes them for; empty: anything."""
    takes = METRICS[task.metric].takes if task.metric in METRICS else ""
    kinds = {"text": "texts"} | dict.fromkeys(("label", "ranking", "score", "probability"), "classes")
    return (kinds | dict.fromkeys(("number", "nonnegative"), "numbers")).get(takes, "")


def _exporter(files: Sequence[str], labels: Sequence[str], mark: str) -> str:
    """One expression: a pickle that names something in ``__main__`` finds nothing there, as in any action."""
    call = f"scope['export']({list(files)!r}, {list(labels)!r}, {mark!r})"
    return f"(lambda scope: (exec({_modules()}, scope), {call}))({{'__name__': 'exporter'}})\n"


@functools.cache
def _modules() -> str:
    """An expression: the modules, compiled where the sandbox has this Python (to compile them takes longer
    than to read the tables), else as text."""
    text = _source()
    packed = base64.b64encode(marshal.dumps(compile(text, "exporter", "exec"))).decode()
    here = f"__import__('importlib.util').util.MAGIC_NUMBER == {importlib.util.MAGIC_NUMBER!r}"
    loaded = f"__import__('marshal').loads(__import__('base64').b64decode({packed!r}))"
    return f"{loaded} if {here} else {text!r}"


def _source() -> str:
    """Both modules as one; ``__future__`` counts only at the start."""
    texts = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (reader, exporter)]
    start = "from __future__ import annotations\n"
    return start + "\n".join(text.replace(start, "") for text in texts)
