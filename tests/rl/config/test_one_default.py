"""Every default of a setting stands in its section of the config, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mappa_rl.config import Config
from mappa_rl.config.overrides import keys
from paths import ROOT

NAMES = {name.split(".")[1] for name, _, _ in keys(Config)}
OTHERS = {"mean_ci.seed", "paired_delta.seed"}
"""Parameters that have a key's name and are something else: the bootstrap's seed is not the run's."""


def defaults(tree: ast.AST) -> Iterator[tuple[str, str, ast.expr]]:
    """Function or class, parameter or field, and its default."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(named[::-1], node.args.defaults[::-1], strict=False)]
            pairs += [
                (each, value)
                for each, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                if value is not None
            ]
            yield from ((node.name, parameter.arg, value) for parameter, value in pairs)
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value:
                    yield node.name, field.target.id, field.value


def is_value(default: ast.expr) -> bool:
    """Whether it says a setting's value; None and what is empty say that there is none."""
    return isinstance(default, ast.Constant) and default.value not in (None, "")


def repeated(source: str) -> list[str]:
    return [
        f"{owner}.{name}={ast.unparse(default)}"
        for owner, name, default in defaults(ast.parse(source))
        if name in NAMES and is_value(default) and f"{owner}.{name}" not in OTHERS
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def play(jobs=1, *, retries=0): ...", ["play.retries=0"]),
        ("def play(retries, staleness=1): ...", ["play.staleness=1"]),
        ("class Loss:\n    clip_low: float = 0.2", ["Loss.clip_low=0.2"]),
        ("class Loss:\n    clip_low: float\n    clip_high: float = Algo().clip_low", []),
        ("def mean_ci(values, seed=0): ...", []),
    ],
)
def test_a_repeated_default_is_found(source: str, found: list[str]) -> None:
    assert repeated(source) == found


def test_no_parameter_repeats_the_default_of_a_key() -> None:
    files = [path for path in (ROOT / "mappa_rl").rglob("*.py") if path.parent.name != "config"]
    assert len(files) > 100
    found: dict[Path, list[str]] = {path: repeated(path.read_text()) for path in files}
    assert {str(path): names for path, names in found.items() if names} == {}
