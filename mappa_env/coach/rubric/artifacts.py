"""Turns the probe's facts about the team's files into defects and their writers.

The names of the facts come from ``mappa_env/probes/facts.py``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.helper_files import Damage, module_of
from mappa_env.coach.rubric.space import FULL, filler_of
from mappa_env.types import ActionRecord, FileChange, Space, ToolResult
from mappa_env.workspace.changes import apply

TABLES = ("X_train", "y_train", "X_test")
MODEL, LABELS = "model.pkl", "y_train.pkl"
PATHS = {**{name: f"{name}.pkl" for name in TABLES}, "model": MODEL}
"""Part of the facts -> the file that it is of."""
RUNS_CODE = "which is no data"
"""In the reason of a file whose loading runs code, which may raise anything."""
UNSTABLE = "it yields something else when it is loaded again"
OTHER_LOADER = "pickle.load and pandas.read_pickle do not load it"
MISSING, TEXTS = "values are missing in it", "columns of text are left in it"
UNCLEAR = "its labels are codes, and nobody can tell whether a file says what they stand for"
FOLLOWS = 0.9
"""The least association of a handed-on column with the task's own: less with a fifth of the rows elsewhere,
and about 0 with all of them."""
_ROWS = (("X_train", "rows"), ("y_train", "rows"), ("checks", "train_rows"))


class Defect(NamedTuple):
    """The ``reason`` why the next agent cannot use ``path``; ``writer`` wrote it last.

    ``observed``: the host saw it in the file history. Otherwise it lies in contents, which the probe reports.
    ``fills``: nothing is wrong with the file but its size. ``helper``: the damage to a file
    that no card names.
    """

    path: str
    writer: str
    reason: str
    observed: bool = False
    fills: bool = False
    helper: Damage | None = None

    @property
    def unclear(self) -> bool:
        """Whether it may be none: who has to do with it gets the benefit of the doubt."""
        return self.reason == UNCLEAR


def sure_defects(causes: Iterable[Defect]) -> list[Defect]:
    """Without those that may be none: predictions that can be graded show what they came to."""
    return [cause for cause in causes if not cause.unclear]


class Look(NamedTuple):
    """The action of ``agent`` at ``step``: its run, and what the probe found after it."""

    agent: str
    step: int
    tool: ToolResult | None
    probe: Mapping[str, Any] | None


def looks_of(records: Iterable[ActionRecord]) -> list[Look]:
    """What the actions did and what the probe found."""
    return [Look(record.agent, record.step, record.tool, record.probe) for record in records]


def facts_of(case: Case) -> Mapping[str, Any] | None:
    """The facts of the latest probe, which ran after the last action that wrote a shared file."""
    if case.evidence.probe is not None:
        return case.evidence.probe
    return facts_after(case.evidence.history)


def facts_after(records: Sequence[ActionRecord]) -> Mapping[str, Any] | None:
    """The facts of the latest probe after one of ``records``."""
    return next((record.probe for record in reversed(records) if record.probe is not None), None)


def defects(case: Case) -> list[Defect]:
    """Every defect of the files now in the workspace: tables first, then the model."""
    at = case.evidence
    looks = [*looks_of(at.history), Look(case.me, at.step, at.tool, at.probe)]
    return defects_of(facts_of(case), at.present, looks)


def space_of(runs: Sequence[ToolResult | None]) -> Space | None:
    """The workspace's quota and its use after the last of ``runs``; None if no run recorded it."""
    return next((tool.space for tool in reversed(runs) if tool is not None and tool.space is not None), None)


def defects_of(
    facts: Mapping[str, Any] | None, present: Mapping[str, FileChange], looks: Sequence[Look]
) -> list[Defect]:
    """Every defect that ``facts`` show of the files that were ``present``: tables first, then the model.

    ``looks``: at all actions so far.
    """
    if facts is None:
        return []
    if "probe_failed" in facts:  # a file that breaks the probe breaks the next agent too: blame the newest
        files = [change for change in present.values() if change.agent and change.path.endswith(".pkl")]
        newest = max(files, key=lambda change: change.step, default=None)
        return [Defect(newest.path, newest.agent, "opening it fails")] if newest is not None else []
    return [
        Defect(path, _author(path, reason, present[path], looks), reason)
        for path, reason in _found(facts, present, looks)
        if path in present
    ]


def _found(
    facts: Mapping[str, Any],
    present: Mapping[str, FileChange],
    looks: Sequence[Look],
    *,
    every: bool = False,
) -> list[tuple[str, str]]:
    """The path and the reason of each defect; ``every``: also those that another one of its table hides."""
    labels = [*_labels(facts, present), *_scale(facts, present, looks)]
    tables = _tables(facts, present, looks, every=every)
    return [*tables, *labels, *_model(facts), *_answers(facts, present)]


def _author(path: str, reason: str, change: FileChange, looks: Sequence[Look]) -> str:
    """Whose doing a defect of ``path`` is, given its last ``change``.

    Who writes another agent's file again, and leaves a defect that it had, has not made that. Who wrote the
    file first answers for all that it writes there.
    """
    before = [look for look in looks if look.step < change.step]
    present: dict[str, FileChange] = {}
    for each in (each for look in before if look.tool is not None for each in look.tool.files):
        apply(each, present)
    former = present.get(path)
    facts = next((look.probe for look in reversed(before) if look.probe is not None), None)
    first = next((look.agent for look in before if look.tool is not None and path in look.tool.written), "")
    if former is None or facts is None or first in ("", change.agent) or "probe_failed" in facts:
        return _writer(change, reason, looks)
    known = {_kind(each) for at, each in _found(facts, present, before, every=True) if at == path}
    if _kind(TEXTS) in known:  # what is left of a text may be a missing value
        known.add(_kind(MISSING))
    if _kind(reason) not in known:
        return _writer(change, reason, looks)
    return _author(path, reason, former, before)


def _kind(reason: str) -> str:
    """``reason`` without the numbers and names in it."""
    return re.sub(r"\(.*\)|\d+", "", reason).strip()


def _writer(change: FileChange, reason: str, looks: Sequence[Look]) -> str:
    """Who made a file unusable: its writer, or who filled the workspace or broke a module that it needs.

    A model can say that the workspace was full, too: the host has to have found it so.
    """
    space = space_of([look.tool for look in looks])
    full = space is not None and space.full_after and FULL in reason
    filler = filler_of(space.quota, space.after) if space is not None and full else None
    if filler is not None:
        return filler[0]
    breaker = breaker_of(change, looks)
    return change.agent if breaker is None else breaker.agent


def breaker_of(change: FileChange, looks: Sequence[Look]) -> Look | None:
    """The action that made a model unusable after it was written, by changing a module that it may need."""
    since = [look for look in looks if look.step >= change.step] if change.path == MODEL else []
    first = next((look.probe for look in since if look.probe is not None), None)
    if first is None or any(_model(first)):
        return None
    return next((look for look in since if look.agent != change.agent and _changes_module(look.tool)), None)


def _changes_module(tool: ToolResult | None) -> bool:
    return tool is not None and any(module_of(change.path) for change in tool.files)


def _labels(facts: Mapping[str, Any], present: Mapping[str, FileChange]) -> Iterator[tuple[str, str]]:
    """Labels in which no submission can be written, unless their writer handed on what they stand for."""
    checks = section(facts, "checks")
    known = checks.get("labels_known", 1.0)
    if known < 1 and not _decodes(checks, present, LABELS, known):
        unclear = _handed_on(checks.get("codings_unclear", ()), present, LABELS)
        yield LABELS, UNCLEAR if unclear else "not all of its labels occur in train.csv"


def _scale(
    facts: Mapping[str, Any], present: Mapping[str, FileChange], looks: Sequence[Look]
) -> Iterator[tuple[str, str]]:
    """Numbers that nobody can take for those asked for, unless a file of their writer tells of it.

    What others made of that file later is not its doing.
    """
    if not section(facts, "checks").get("labels_scaled") or LABELS not in present:
        return
    writer, telling = present[LABELS].agent, {LABELS}.intersection(_telling(facts))
    for look in looks:
        if look.agent == writer and look.tool is not None:
            known = look.probe if look.probe is not None else facts
            telling.update({file.path for file in look.tool.files}.intersection(_telling(known)))
    if not telling:
        yield LABELS, "its numbers are on another scale than those of train.csv, and no file says on which"


def _telling(facts: Mapping[str, Any]) -> Sequence[str]:
    """The files that may tell how to undo the scale."""
    files: Sequence[str] = section(facts, "checks").get("scalings", ())
    return files


def _answers(facts: Mapping[str, Any], present: Mapping[str, FileChange]) -> Iterator[tuple[str, str]]:
    """Answers of a model in which no submission can be written: codes without their meaning, say.

    Those in the labels of y_train are as good as these.
    """
    model, checks = section(facts, "model"), section(facts, "checks")
    if is_unknown(model):
        return
    targets, cols = checks.get("targets"), model.get("answer_cols")
    if targets and cols not in (None, targets) and cols == section(facts, "y_train").get("cols"):
        yield MODEL, f"it predicts {cols} columns, and train.csv has {targets} of targets"
    named = model.get("answers_named", 0.0)
    coded = any(reason != UNCLEAR for _, reason in _labels(facts, present))
    given = not coded and model.get("answers_known", 1.0) == 1
    if not given and named < 1 and not _decodes(checks, present, MODEL, named):
        unclear = _handed_on(checks.get("codings_unclear", ()), present, MODEL)
        yield MODEL, UNCLEAR if unclear else "not all of its answers are labels of the task"


def _decodes(checks: Mapping[str, Any], present: Mapping[str, FileChange], path: str, named: float) -> bool:
    """Whether the writer of ``path`` handed on a file that tells what codes stand for.

    ``named``: the share of labels that are no codes: then ``path`` itself holds names anyway.
    """
    files = [name for name in checks.get("codings", ()) if name != path or not named]
    return _handed_on(files, present, path)


def _handed_on(files: Iterable[str], present: Mapping[str, FileChange], path: str) -> bool:
    writer = present[path].agent if path in present else ""
    return any(name in present and present[name].agent == writer for name in files)


def section(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One part of the facts; empty if the probe did not report it."""
    value = facts.get(name)
    return value if isinstance(value, Mapping) else {}


def other_format(part: Mapping[str, Any]) -> bool:
    """Whether a file is in a known format that is no pickle: whether it blocks its reader shows later."""
    return part.get("plain") is False and part.get("format") not in ("pickle", "compressed")


def unknown_work(case: Case) -> str | None:
    """The first file of this agent's task that nobody can look into: neither good work nor bad.

    Other agents' files are not its work: to overwrite them is a fault, whatever they hold then.
    """
    required = case.evidence.agent.requires
    return next(
        (path for path in unknown_files(facts_of(case)) if path in required and case.mine(path)), None
    )


def unknown_files(facts: Mapping[str, Any] | None) -> list[str]:
    """The files of which ``facts`` say that nobody could tell what they hold."""
    return [path for name, path in PATHS.items() if is_unknown(section(facts or {}, name))]


def is_unknown(part: Mapping[str, Any]) -> bool:
    """Whether nobody could tell what a file holds: it is huge, or of an unusual format.

    Nor how a model is meant to be used that lies in it beside other things, such as an encoder or a scaler.
    """
    return part.get("unknown") is True or is_bundle(part)


def is_bundle(part: Mapping[str, Any]) -> bool:
    """Whether a model lies in its file beside other things."""
    return bool(part.get("inside"))


def _tables(
    facts: Mapping[str, Any],
    present: Mapping[str, FileChange],
    looks: Sequence[Look],
    *,
    every: bool = False,
) -> Iterator[tuple[str, str]]:
    checks = section(facts, "checks")
    for name in TABLES:
        table = section(facts, name)
        if table.get("exists") and not is_unknown(table):
            reasons = _flaws(table, labels=name == "y_train")
            yield from ((f"{name}.pkl", reason) for reason in itertools.islice(reasons, None if every else 1))
    if checks.get("target_leaked"):
        yield "X_train.pkl", f"it contains the target ({', '.join(map(str, checks['target_leaked'][:3]))})"
    pair = ("X_train.pkl", "X_test.pkl")
    if _fails(checks, "labels_follow"):
        if (checks.get("labels_related") or 0.0) < FOLLOWS or not _handed_on(
            _coding(checks), present, LABELS
        ):
            yield _labels_elsewhere(checks, present, looks)
        elif not _handed_on(_coding(checks, sure=True), present, LABELS):
            yield LABELS, UNCLEAR  # numbers that are labels, too, may be codes of others
    if _fails(checks, "test_rows_follow"):
        yield "X_test.pkl", "its rows are not those of test.csv in their order"
    if checks.get("scales_match") is False:
        alone = _last_alone("scales_match", pair, present, looks) or pair[1]
        names = ", ".join(map(str, checks.get("scales_off", ())[:3]))
        yield alone, f"columns are on another scale than in {pair[alone == pair[0]]} ({names})"
    if checks.get("label_words"):
        yield "y_train.pkl", f"{checks['label_words']} labels are texts where train.csv has numbers"
    if checks.get("labels_huge") and not checks.get("labels_scaled"):
        yield LABELS, f"{checks['labels_huge']} of its numbers are larger than any that may be submitted"
    cols, targets = section(facts, "y_train").get("cols"), checks.get("targets")
    if cols and targets and cols != targets and not _is_one_hot(checks, present):
        yield LABELS, f"it has {cols} columns, and train.csv has {targets} of targets"
    if checks.get("rows_match") is False:
        yield _other_rows(facts, _last_alone("rows_match", ("X_train.pkl", LABELS), present, looks))
    if checks.get("test_rows_match") is False:
        yield "X_test.pkl", "it has not as many rows as test.csv"
    if checks.get("columns_match") is False:
        alone = _last_alone("columns_match", pair, present, looks) or pair[1]
        yield alone, f"its columns are not those of {pair[alone == pair[0]]}"


def _coding(checks: Mapping[str, Any], *, sure: bool = False) -> list[str]:
    """The files that tell, or unless ``sure`` may tell, what codes stand for: tables hold labels anyway."""
    files = [*checks.get("codings", ()), *(() if sure else checks.get("codings_unclear", ()))]
    return [path for path in files if path not in PATHS.values()]


def _is_one_hot(checks: Mapping[str, Any], present: Mapping[str, FileChange]) -> bool:
    """Whether one column of labels stands for all targets, and who reads it can tell which is which."""
    kind = checks.get("one_hot")
    return kind == "named" or (kind == "coded" and _decodes(checks, present, LABELS, 0.0))


def _other_rows(facts: Mapping[str, Any], alone: str | None) -> tuple[str, str]:
    """Which of X_train and y_train has other rows: ``alone``, or whichever is further from train.csv."""
    x, y, given = (int(section(facts, name).get(key) or 0) for name, key in _ROWS)
    if alone == LABELS or (alone is None and abs(x - given) < abs(y - given)):
        return LABELS, f"it has {y} rows, and X_train.pkl {x}"
    return "X_train.pkl", f"it has {x} rows, and y_train.pkl {y}"


def _last_alone(
    check: str, pair: tuple[str, str], present: Mapping[str, FileChange], looks: Sequence[Look]
) -> str | None:
    """Which of two tables is no match of the other: the one that another agent changed later.

    None: one agent wrote both last, or they had been no match before, as ``check`` of the last probe says.
    """
    if not present.keys() >= set(pair):
        return None
    first, last = sorted((present[path] for path in pair), key=lambda change: change.step)
    unlike = _fails(_checks_before(last, looks), check)
    return None if first.agent == last.agent or unlike else last.path


def _checks_before(change: FileChange, looks: Sequence[Look]) -> Mapping[str, Any]:
    """What the last probe before ``change`` compared."""
    facts = (look.probe for look in reversed(looks) if look.step < change.step and look.probe is not None)
    return section(next(facts, {}), "checks")


def _fails(checks: Mapping[str, Any], check: str) -> bool:
    """Whether something is not as it should be, or goes together with the task's own too little."""
    return bool(checks.get(check, True) < FOLLOWS)


def _labels_elsewhere(
    checks: Mapping[str, Any], present: Mapping[str, FileChange], looks: Sequence[Look]
) -> tuple[str, str]:
    """Which of X_train and y_train left its rows, where labels are not those of their rows.

    y_train, unless another agent changed X_train later: after the labels had been seen to follow, or to other
    rows than those of train.csv.
    """
    features = "X_train.pkl"
    if _last_alone("labels_follow", (features, LABELS), present, looks) == features:
        known = "labels_follow" in _checks_before(present[features], looks)
        if known or not checks.get("rows_in_place", True):
            return features, f"its rows are not those of {LABELS}"
    return LABELS, "its values are not those of its rows in train.csv"


def _flaws(table: Mapping[str, Any], *, labels: bool) -> Iterator[str]:
    if not table.get("loads"):
        yield f"it cannot be loaded ({table.get('error', 'no reason given')})"
        return
    if table.get("stable") is False:
        yield UNSTABLE
    if not table.get("table"):
        yield f"it holds a {table.get('type', 'thing')}, not a table"
        return
    if table.get("plain") is False and not other_format(table):
        yield OTHER_LOADER
    if not table.get("rows") or not table.get("cols"):
        yield "it is empty"
        return
    if table.get("nan"):
        yield f"{table['nan']} {MISSING}"
    if table.get("inf"):
        yield f"{table['inf']} values in it are infinite"
    if not labels and table.get("too_large"):
        yield f"{table['too_large']} values in it are too large for float32, in which trees compute"
    if not labels and not table.get("numeric"):
        yield f"{TEXTS} ({', '.join(map(str, table.get('strings', ())[:3]))})"
    if not labels and table.get("mixed_names"):
        yield "some names of its columns are texts and others are not"
    if table.get("unfit"):
        yield f"no model can be fitted to it ({table['unfit']})"
    if labels and table.get("distinct") == 1:
        yield "it holds one and the same value in every row"


def _model(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    model = section(facts, "model")
    if not model.get("exists") or is_unknown(model):
        return
    if not model.get("loads"):
        yield MODEL, f"it cannot be loaded ({model.get('error', 'no reason given')})"
    elif model.get("stable") is False:
        yield MODEL, UNSTABLE
    elif model.get("plain") is False and not other_format(model):
        yield MODEL, OTHER_LOADER
    elif not model.get("has_predict"):
        yield MODEL, f"it holds a {model.get('type', 'thing')}, which cannot predict"
    elif model.get("predicts") is False:
        table = model.get("tried_on", "X_test.pkl")
        yield MODEL, f"it cannot predict {table} ({model.get('error', 'no reason given')})"
    elif model.get("finite") is False:
        yield MODEL, "its predictions are not finite"
    elif "n_predictions" in model and model["n_predictions"] != section(facts, "X_test").get("rows"):
        yield MODEL, f"it makes {model['n_predictions']} predictions for X_test.pkl"
    elif model.get("one_class"):
        yield MODEL, "it knows one class only"
