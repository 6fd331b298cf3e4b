"""Turns the probe's facts about the team's files into defects and their writers.

The names of the facts come from ``mappa_env/probes/facts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.helper_files import Damage, module_of
from mappa_env.coach.rubric.space import FULL, filler_of
from mappa_env.types import ActionRecord, FileChange, Space, ToolResult

TABLES = ("X_train", "y_train", "X_test")
MODEL, LABELS = "model.pkl", "y_train.pkl"
PATHS = {**{name: f"{name}.pkl" for name in TABLES}, "model": MODEL}
"""Part of the facts -> the file that it is of."""
RUNS_CODE = "which is no data"
"""In the reason of a file whose loading runs code, which may raise anything."""
UNSTABLE = "it yields something else when it is loaded again"
OTHER_LOADER = "pickle.load and pandas.read_pickle do not load it"
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
    earlier = (record.probe for record in reversed(case.evidence.history))
    return next((facts for facts in earlier if facts is not None), None)


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
    labels = [*_labels(facts, present), *_scale(facts, present, looks)]
    found = [*_tables(facts, present, looks), *labels, *_model(facts), *_answers(facts, present)]
    return [
        Defect(path, _writer(present[path], reason, looks), reason)
        for path, reason in found
        if path in present
    ]


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
    facts: Mapping[str, Any], present: Mapping[str, FileChange], looks: Sequence[Look]
) -> Iterator[tuple[str, str]]:
    checks = section(facts, "checks")
    for name in TABLES:
        table = section(facts, name)
        if table.get("exists") and not is_unknown(table):
            reason = _table(table, labels=name == "y_train")
            if reason is not None:
                yield f"{name}.pkl", reason
    if checks.get("target_leaked"):
        yield "X_train.pkl", f"it contains the target ({', '.join(map(str, checks['target_leaked'][:3]))})"
    if checks.get("labels_follow", 1.0) < FOLLOWS:
        yield "y_train.pkl", "its values are not those of its rows in train.csv"
    if checks.get("test_rows_follow", 1.0) < FOLLOWS:
        yield "X_test.pkl", "its rows are not those of test.csv in their order"
    pair = ("X_train.pkl", "X_test.pkl")
    if checks.get("scales_match") is False:
        alone = _last_alone("scales_match", pair, present, looks) or pair[1]
        names = ", ".join(map(str, checks.get("scales_off", ())[:3]))
        yield alone, f"columns are on another scale than in {pair[alone == pair[0]]} ({names})"
    if checks.get("label_words"):
        yield "y_train.pkl", f"{checks['label_words']} labels are texts where train.csv has numbers"
    if checks.get("labels_huge") and not checks.get("labels_scaled"):
        yield LABELS, f"{checks['labels_huge']} of its numbers are larger than any that may be submitted"
    cols, targets = section(facts, "y_train").get("cols"), checks.get("targets")
    if cols and targets and cols != targets:
        yield LABELS, f"it has {cols} columns, and train.csv has {targets} of targets"
    if checks.get("rows_match") is False:
        yield _other_rows(facts, _last_alone("rows_match", ("X_train.pkl", LABELS), present, looks))
    if checks.get("test_rows_match") is False:
        yield "X_test.pkl", "it has not as many rows as test.csv"
    if checks.get("columns_match") is False:
        alone = _last_alone("columns_match", pair, present, looks) or pair[1]
        yield alone, f"its columns are not those of {pair[alone == pair[0]]}"


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
    known = [look.probe for look in looks if look.step < last.step and look.probe is not None]
    unlike = bool(known) and section(known[-1], "checks").get(check) is False
    return None if first.agent == last.agent or unlike else last.path


def _table(table: Mapping[str, Any], *, labels: bool) -> str | None:
    if not table.get("loads"):
        return f"it cannot be loaded ({table.get('error', 'no reason given')})"
    if table.get("stable") is False:
        return UNSTABLE
    if not table.get("table"):
        return f"it holds a {table.get('type', 'thing')}, not a table"
    if table.get("plain") is False and not other_format(table):
        return OTHER_LOADER
    if not table.get("rows") or not table.get("cols"):
        return "it is empty"
    if table.get("nan"):
        return f"{table['nan']} values are missing in it"
    if table.get("inf"):
        return f"{table['inf']} values in it are infinite"
    if not labels and table.get("too_large"):
        return f"{table['too_large']} values in it are too large for float32, in which trees compute"
    if not labels and not table.get("numeric"):
        return f"columns of text are left in it ({', '.join(map(str, table.get('strings', ())[:3]))})"
    if not labels and table.get("mixed_names"):
        return "some names of its columns are texts and others are not"
    if table.get("unfit"):
        return f"no model can be fitted to it ({table['unfit']})"
    if labels and table.get("distinct") == 1:
        return "it holds one and the same value in every row"
    return None


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
