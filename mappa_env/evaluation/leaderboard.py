"""Evaluations side by side: a table for the terminal, a page, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jinja2
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.envs.rendering import printable
from mappa_env.evaluation.figures import Figures
from mappa_env.evaluation.folder import Evaluation
from mappa_env.evaluation.participants import SERVED, kind_of
from mappa_env.statistics.intervals import Interval

_PAGE = "leaderboard.html.jinja"
_WIDTH = 140
"""Columns of a table that goes into a file."""
_NAME = 60
"""Characters of a model's name; a constant answer may be a whole program."""


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation in one environment."""

    name: str
    models: str
    figures: Figures

    @property
    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        found = self.figures
        spent = found.spent
        return {
            "name": self.name,
            "models": self.models,
            "env": found.env,
            "tasks": found.tasks,
            "samples": found.samples,
            "success": found.success._asdict(),
            "score": found.score._asdict(),
            **{name: value._asdict() for name, value in found.values.items()},
            "calls": spent.calls,
            "retries": spent.retries,
            "prompt_tokens": spent.prompt,
            "output_tokens": spent.output + spent.thoughts,
            "dollars": spent.dollars,
        }


def boards(evaluations: Sequence[Evaluation]) -> dict[str, list[Row]]:
    """Environment -> its rows, the best success first."""
    found: dict[str, list[Row]] = {}
    for each in evaluations:
        for figures in each.figures:
            found.setdefault(figures.env, []).append(Row(each.name, models_of(each.settings), figures))
    for rows in found.values():
        rows.sort(key=lambda row: (-row.figures.success.mean, row.name))
    return found


def models_of(settings: Mapping[str, Any]) -> str:
    """The models' names, without their addresses: ``a`` or ``a, solver_0: b``."""
    names = {agent: _model(spec) for agent, spec in settings["models"].items()}
    return ", ".join(name if agent == "*" else f"{agent}: {name}" for agent, name in sorted(names.items()))


def show(found: Mapping[str, Sequence[Row]]) -> None:
    """Print a table for each environment."""
    console = Console(width=None if Console().is_terminal else _WIDTH)
    for table in _tables(found):
        console.print(table)


def page(found: Mapping[str, Sequence[Row]]) -> str:
    """One HTML page that needs no server, no script and no other file."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"percent": percent, "shown": shown}
    text = resources.files(__package__).joinpath(_PAGE).read_text(encoding="utf-8")
    sections = [(env, rows, _columns(rows)) for env, rows in found.items()]
    return environment.from_string(text).render(sections=sections)


def percent(value: Interval) -> str:
    """A rate and its interval in percent."""
    return f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def shown(value: Interval | None, name: str) -> str:
    """A figure and its interval; rates in percent."""
    if value is None:
        return "-"
    if name.startswith(("pass@", "maj@")):
        return percent(value)
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def _tables(found: Mapping[str, Sequence[Row]]) -> Iterator[Table]:
    for env, rows in found.items():
        values = _columns(rows)
        table = Table(
            *("evaluation", "model", "tasks", "success %"),
            *values,
            "tokens out",
            "dollars",
            title=escape(env),
        )
        for row in rows:
            spent = row.figures.spent
            table.add_row(
                escape(printable(row.name)),
                escape(row.models),
                f"{row.figures.tasks} x {row.figures.samples}",
                percent(row.figures.success),
                *(shown(row.figures.values.get(name), name) for name in values),
                f"{spent.output + spent.thoughts:,}",
                "unknown" if spent.dollars is None else f"{spent.dollars:.2f}",
            )
        yield table


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.figures.values))


def _model(spec: Mapping[str, Any]) -> str:
    name = str(spec["name"])
    shown = name.partition(":")[2].partition("@")[0] if kind_of(name) == SERVED else name
    shown = printable(shown)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"
