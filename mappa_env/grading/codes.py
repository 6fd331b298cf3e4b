"""What answers of a model stand for where a task asks for labels: names, codes, shares or other numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappa_env.grading.formulas import LISTED
from mappa_env.grading.metrics import metric_named
from mappa_env.grading.spelling import Labels, canonical
from mappa_env.types import Task

Rows = list[list[str]]
"""The codes of each row, the likeliest first."""
_TRUTHS = {"False": 0.0, "True": 1.0}


def labels_said(task: Task, facts: Mapping[str, Any], truth: Sequence[str]) -> list[list[str]]:
    """The answers of the model in a probe's facts as labels, in every way in which they can be meant.

    Codes of y_train are those of its rows in train.csv. What other codes stand for nobody can tell: the
    host's forest does if it learned from the same ones, else they mean what makes most of them true, or the
    labels in their order where that is no better than chance.
    ``truth``: the labels of the same rows. Empty: the answers stand for no labels.
    """
    spell, codes = Labels(task.truth["labels"]), _codes_of(facts)
    found = []
    for rows in _forms(facts["model"], spell, codes, ranked=metric_named(task.metric).takes == "ranking"):
        used = {code for row in rows for code in row}
        meanings = _sure(used, spell, codes)
        if not meanings and len(used) <= len(spell.known):
            firsts, first = [row[0] for row in rows], truth[: len(rows)]
            meanings = [_of_hosts(facts, used, first) or _likely(firsts, first, used, spell.known)]
        found += [[" ".join(meaning[code] for code in row) for row in rows] for meaning in meanings]
    return found


def best_meaning(
    codes: Sequence[str], labels: Sequence[str], every: Iterable[str] = (), known: Iterable[str] = ()
) -> dict[str, str]:
    """A label for each code, no label for two, with which most rows agree. Codes may outnumber labels.

    ``every`` code and ``known`` label count, also those that no row has.
    """
    from scipy.optimize import linear_sum_assignment

    pairs = Counter(zip(codes, labels, strict=True))
    lines, columns = sorted({*codes, *every}), sorted({*labels, *known})
    table = np.array([[pairs[code, label] for label in columns] for code in lines])
    return {lines[at]: columns[to] for at, to in zip(*linear_sum_assignment(table, True), strict=True)}


def _codes_of(facts: Mapping[str, Any]) -> dict[str, str]:
    checks = facts.get("checks")
    codes = checks.get("codes") if isinstance(checks, Mapping) else None
    return {canonical(code): label for code, label in codes.items()} if isinstance(codes, Mapping) else {}


def _sure(used: set[str], spell: Labels, codes: Mapping[str, str]) -> list[dict[str, str]]:
    """What codes mean that are labels themselves, or those of y_train: they may be both."""
    found = []
    if all(spell(code) in spell.known for code in used):
        found.append({code: spell(code) for code in used})
    if used <= codes.keys():
        found.append({code: spell(codes[code]) for code in used})
    return found


def _of_hosts(facts: Mapping[str, Any], used: set[str], truth: Sequence[str]) -> dict[str, str] | None:
    """What the codes mean to the host's forest; None if it has others, or learned too little to tell."""
    allowed = facts.get("allowed")
    said = allowed.get("predictions") if isinstance(allowed, Mapping) else None
    if not isinstance(said, list) or len(said) < len(truth):
        return None
    codes = [canonical(str(each)) for each in said[: len(truth)]]
    if not used <= set(codes):
        return None
    meaning = best_meaning(codes, truth)
    right = sum(meaning.get(code) == label for code, label in zip(codes, truth, strict=True))
    most = max(Counter(truth).values())
    return meaning if used <= meaning.keys() and 2 * right >= len(truth) + most else None


def _likely(
    codes: Sequence[str], truth: Sequence[str], used: set[str], known: frozenset[str]
) -> dict[str, str]:
    """The best meaning, unless the labels in their order make as many codes true: up to what chance adds."""
    found, labels = best_meaning(codes, truth, used, known), sorted(known, key=_place)
    inside = used <= {*map(str, range(len(labels))), *map(_nth, range(len(labels)))}
    if not inside and len(used) < len(labels):
        return found
    usual = {code: labels[int(code.split()[-1])] for code in used} if inside else {}
    usual = usual or dict(zip(sorted(used, key=_place), labels, strict=True))
    best, plain = (
        sum(meaning[code] == label for code, label in zip(codes, truth, strict=True))
        for meaning in (found, usual)
    )
    return found if best - plain > 2 * math.sqrt(len(codes)) else usual


def _forms(model: Mapping[str, Any], spell: Labels, codes: Mapping[str, str], *, ranked: bool) -> list[Rows]:
    """The codes that answers are, or stand for: where that is open, in several ways."""
    if ranked and (lists := _likeliest(model)) is not None:
        return [lists]
    said = model["predictions"]
    if not any(isinstance(each, (list, tuple)) for each in said):
        texts = [str(each) for each in said]
        rows = [[canonical(code) for code in (text.split() if ranked else [text])] for text in texts]
        if all(rows) and _sure({code for row in rows for code in row}, spell, codes):
            return [rows]
        try:
            cells = np.array(said, dtype=float)[:, None]
        except (TypeError, ValueError):
            return [rows] if all(rows) else []
        if np.isin(cells, range(len(spell.known))).all():
            return [rows]
        if len(np.unique(cells)) <= len(spell.known) and (cells == np.round(cells)).all():
            return [rows, *_of_numbers(cells, spell, codes)]
    else:
        try:
            cells = np.array(said, dtype=float).reshape(len(said), -1)
        except (TypeError, ValueError):
            return []
    return _of_numbers(cells, spell, codes)


def _likeliest(model: Mapping[str, Any]) -> Rows | None:
    """The likeliest classes of each row; None without the probabilities of three classes or more."""
    classes = model.get("classes")
    try:
        shares = np.array(model.get("probabilities"), dtype=float)
    except (TypeError, ValueError):
        return None
    if not isinstance(classes, list) or shares.ndim != 2 or shares.shape[1] != len(classes):
        return None
    names = [canonical(str(each)) for each in classes]
    order = np.argsort(-shares, axis=1, kind="stable")[:, :LISTED]
    return [[names[at] for at in row] for row in order]


def _of_numbers(cells: NDArray[np.float64], spell: Labels, codes: Mapping[str, str]) -> list[Rows]:
    """Probabilities of the second of two labels, or one column per label; else the nearest numbers.

    A regressor was fitted to labels, or codes, that have an order.
    """
    count, values = len(spell.known), {code: _value(code) for code in (*codes, *spell.known)}
    numeric = [
        sorted(each, key=values.__getitem__)
        for each in (codes, spell.known)
        if each and all(math.isfinite(values[code]) for code in each)
    ]
    ordered = [each for each in numeric[:1] if len(each) == count]
    places = ordered[0] if ordered else [_nth(at) for at in range(count)]
    shares = bool(((cells >= 0) & (cells <= 1)).all())
    if shares and cells.shape[1] == 1 and count == 2:
        return [[[places[int(share >= 0.5)]] for share in cells[:, 0]]]
    if shares and cells.shape[1] == count > 1:
        return [[[places[at]] for at in cells.argmax(axis=1)]]
    if cells.shape[1] > 1 or not np.isfinite(cells).all():
        return []
    found = []
    for each in numeric or [places]:
        marks = np.array([values.get(code, float(at)) for at, code in enumerate(each)])
        found.append([[each[int(at)]] for at in np.abs(cells - marks).argmin(axis=1)])
    return found


def _nth(at: int) -> str:
    """A code for a place in an order that is the model's own."""
    return f"place {at}"


def _place(label: str) -> tuple[float, str]:
    """Numbers by value, then text."""
    return _value(label), label


def _value(label: str) -> float:
    """Its place among numbers, truth values among them; infinity for other text."""
    try:
        return _TRUTHS[label] if label in _TRUTHS else float(label)
    except ValueError:
        return math.inf
