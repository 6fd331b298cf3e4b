"""Made-up column names, disjoint between splits.

Names of ids and targets have two parts. Every part occurs in all splits, but no whole name does.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from mappa_env.data.tabular import words
from mappa_env.types import Task

Pool = Literal["train", "eval", "words-train", "words-validation", "words-eval"]
"""The ``words-`` pools make names of two words: there are more pairs of each kind (768) than tasks, so that
small policies learn to copy names instead of memorising them. Columns have many names too."""
TaskType = Literal["classification", "regression"]

MAX_LISTED = 16
"""Columns of one kind that the compact text names."""

_ID_HEADS = ("case", "row", "item", "unit", "entry", "sample", "user", "order")
_ID_TAILS = ("_id", "_no", "_key", "_ref")
_TARGET_HEADS = ("risk", "crop", "heart", "sale", "load", "soil", "trip", "fuel")
_CLASS_TAILS = ("_class", "_type", "_flag", "_group")
_VALUE_TAILS = ("_value", "_cost", "_score", "_level")

_ID_WORDS = (
    "case",
    "row",
    "item",
    "unit",
    "entry",
    "sample",
    "user",
    "order",
    "ticket",
    "parcel",
    "client",
    "block",
    "lane",
    "cell",
    "shop",
    "note",
)
_TARGET_WORDS = (
    "risk",
    "crop",
    "heart",
    "sale",
    "load",
    "soil",
    "trip",
    "fuel",
    "debt",
    "rent",
    "plant",
    "water",
    "road",
    "voice",
    "paper",
    "metal",
)
_LAST_WORDS = (
    "key",
    "ref",
    "code",
    "number",
    "tag",
    "mark",
    "index",
    "label",
    "name",
    "sign",
    "stamp",
    "token",
    "serial",
    "handle",
    "badge",
    "string",
    "class",
    "type",
    "flag",
    "group",
    "kind",
    "band",
    "grade",
    "state",
    "phase",
    "mode",
    "stage",
    "rank",
    "shade",
    "style",
    "tier",
    "family",
    "value",
    "cost",
    "score",
    "level",
    "price",
    "rate",
    "amount",
    "total",
    "share",
    "yield",
    "delay",
    "range",
    "output",
    "margin",
    "points",
    "count",
)

_NUMBERS: dict[str, tuple[str, ...]] = {
    "train": (
        "age",
        "size",
        "rooms",
        "width",
        "height",
        "depth",
        "speed",
        "power",
        "weight",
        "length",
        "income",
        "visits",
        "clicks",
        "pages",
        "hours",
        "days",
        "stock",
        "demand",
        "wind",
        "rain",
        "salt",
        "sugar",
        "acid",
        "iron",
        "heat",
        "noise",
        "light",
    ),
    "eval": (
        "area",
        "floor",
        "angle",
        "radius",
        "volume",
        "mass",
        "budget",
        "orders",
        "views",
        "weeks",
        "supply",
        "cloud",
        "snow",
        "fiber",
        "zinc",
        "pulse",
        "gloss",
        "sound",
    ),
}
_TEXTS: dict[str, tuple[str, ...]] = {
    "train": ("color", "city", "brand", "shape", "model", "region", "team"),
    "eval": ("metal", "state", "maker", "form", "branch", "club"),
}

LEVELS = (
    ("red", "blue", "green", "gray"),
    ("low", "mid", "high", "top"),
    ("north", "south", "east", "west"),
    ("basic", "plus", "pro", "max"),
)
"""Values of made-up categorical columns."""

LABELS = (
    ("A", "B", "C", "D", "E"),
    ("alpha", "beta", "gamma", "delta", "omega"),
    ("bronze", "silver", "gold", "jade", "ruby"),
)
"""Class labels of targets that are text."""


class Names(NamedTuple):
    """The names of a pool, by the kind of column."""

    ids: tuple[str, ...]
    targets: tuple[str, ...]
    numbers: tuple[str, ...]
    texts: tuple[str, ...]


def names_for(pool: Pool, task_type: TaskType) -> Names:
    """The names of ``pool`` for tasks of ``task_type``."""
    split = pool.removeprefix("words-")
    if split != pool:
        ids, targets = _words(_ID_WORDS, split), _words(_TARGET_WORDS, split)
        return Names(ids, targets, words.NUMBERS[split], words.TEXTS[split])
    tails = _CLASS_TAILS if task_type == "classification" else _VALUE_TAILS
    return Names(
        _pairs(_ID_HEADS, _ID_TAILS, pool), _pairs(_TARGET_HEADS, tails, pool), _NUMBERS[pool], _TEXTS[pool]
    )


def _pairs(heads: tuple[str, ...], tails: tuple[str, ...], pool: Pool) -> tuple[str, ...]:
    """Pairs by diagonals, three of four for training, so that each part is in both pools."""
    return tuple(
        head + tail
        for i, head in enumerate(heads)
        for j, tail in enumerate(tails)
        if ((i + j) % 4 == 3) == (pool == "eval")
    )


def _words(heads: tuple[str, ...], split: str) -> tuple[str, ...]:
    """Pairs by diagonals, one of sixteen each for eval and validation; every word is in all three splits."""
    wanted = {"eval": (13,), "validation": (14,)}.get(split, (*range(13), 15))
    return tuple(
        f"{head} {tail}"
        for i, head in enumerate(heads)
        for j, tail in enumerate(_LAST_WORDS)
        if (i + j) % 16 in wanted
    )


def describe(task: Task) -> str:
    """The compact problem text: quoted names (quotes make them the same tokens as in code)."""
    columns = {kind: names[:MAX_LISTED] for kind, names in task.meta["columns"].items()}
    target = task.meta["target"]
    targets = " ".join(f"'{name}'" for name in ([target] if isinstance(target, str) else target))
    lines = [
        f"task: {task.meta['task_type']} {task.metric}",
        f"id: '{task.meta['id']}' target: {targets}",
    ]
    lines += [f"{kind}: {' '.join(columns[kind])}" for kind in ("num", "cat", "missing") if columns[kind]]
    return "\n".join([*lines, "files: train.csv test.csv"])
