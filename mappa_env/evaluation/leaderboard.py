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

from mappa_env.coach.llm.address import split_address
from mappa_env.envs.rendering import printable
from mappa_env.envs.tables import print_whole
from mappa_env.evaluation.episodes import Tokens
from mappa_env.evaluation.figures import Figures
from mappa_env.evaluation.folder import Evaluation
from mappa_env.evaluation.participants import SERVED, kind_of
from mappa_env.evaluation.sources import rules_of
from mappa_env.statistics.intervals import Interval

APART = "Evaluations with other tasks or settings cannot be ranked together; headings name what differs."
UNKNOWN = (
    "Of evaluations of earlier versions it is unknown what their tasks were: only --tasks and ids say that "
    "they had the same ones."
)
_PAGE = "leaderboard.html.jinja"
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
            "content": found.content,
            "samples": found.samples,
            "success": found.success._asdict(),
            "score": found.score._asdict(),
            **{name: value._asdict() for name, value in found.values.items()},
            "calls": spent.calls,
            "retries": spent.retries,
            "prompt_tokens": spent.prompt,
            "output_tokens": spent.output + spent.thoughts,
            "dollars": spent.dollars,
            "unknown_calls": spent.unknown,
        }


def boards(evaluations: Sequence[Evaluation]) -> dict[str, list[Row]]:
    """Heading -> rows that can be compared, the best success first.

    The heading is the environment. Evaluations with other tasks, or with settings that change what the tasks
    ask for, are no rivals: each group then has rows of its own, and its heading names what differs.
    """
    found: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    for each in evaluations:
        for figures in each.figures:
            mine = found.setdefault(figures.env, {}).setdefault(_group(each, figures), [])
            mine.append(Row(each.name, models_of(each.settings), figures))
    named: dict[str, list[Row]] = {}
    for env, groups in found.items():
        for group, rows in groups.items():
            differing = [text for i, text in enumerate(group) if len({other[i] for other in groups}) > 1]
            heading = f"{env}: {', '.join(differing)}" if differing else env
            named[heading] = sorted(rows, key=lambda row: (-row.figures.success.mean, row.name))
    return named


def _group(evaluation: Evaluation, figures: Figures) -> tuple[str, ...]:
    """What evaluations must share to be compared, in words. Sandbox and samples do not count.

    Tasks are told apart by their content, wherever they were read. Where an earlier version kept no digest of
    it, names and ids must do, and nothing says that the tasks are those of another evaluation. So are cards,
    whose prompts and limits may change under the same id.
    """
    settings = evaluation.settings
    options = settings.get("options") or {}
    feedback = options.get("coach_feedback") or "off"
    unknown = f"unknown content, tasks={settings.get('tasks')}, ids {figures.digest}"
    return (
        f"{figures.tasks} tasks ({figures.content or unknown})",
        f"seed={settings.get('seed')}",
        f"prompts={options.get('prompts') or 'full'}",
        f"coach_feedback={feedback}" + ("" if feedback == "off" else f" of {options.get('coach')}"),
        f"card {rules_of(evaluation.sources.get(figures.env, {}), coached=feedback != 'off') or 'unknown'}",
    )


def models_of(settings: Mapping[str, Any]) -> str:
    """The models' names, without their addresses: ``a`` or ``a, solver_0: b``."""
    names = {agent: _model(spec) for agent, spec in settings["models"].items()}
    return ", ".join(name if agent == "*" else f"{agent}: {name}" for agent, name in sorted(names.items()))


def show(found: Mapping[str, Sequence[Row]]) -> None:
    """Print a table for each environment, or for each group that can be compared."""
    console = Console(soft_wrap=True)
    for table in _tables(found):
        print_whole(table)
    if len({row.figures.env for rows in found.values() for row in rows}) < len(found):
        console.print(APART)
    if _any_unknown(found):
        console.print(UNKNOWN)


def _any_unknown(found: Mapping[str, Sequence[Row]]) -> bool:
    """Whether a row does not say what its tasks were."""
    return not all(row.figures.content for rows in found.values() for row in rows)


def page(found: Mapping[str, Sequence[Row]]) -> str:
    """One HTML page that needs no server, no script and no other file."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"percent": percent, "shown": shown, "written": written}
    text = resources.files(__package__).joinpath(_PAGE).read_text(encoding="utf-8")
    sections = [(env, rows, _columns(rows)) for env, rows in found.items()]
    return environment.from_string(text).render(
        sections=sections, unknown=UNKNOWN if _any_unknown(found) else ""
    )


def percent(value: Interval) -> str:
    """A rate in percent, and its interval if it has one."""
    ends = f" [{100 * value.low:.1f}, {100 * value.high:.1f}]" if value.bounded else ""
    return f"{100 * value.mean:.1f}{ends}"


def written(spent: Tokens) -> str:
    """Tokens that were generated; at least so many, where a server did not count all."""
    return f"{'≥ ' if spent.unknown else ''}{spent.output + spent.thoughts:,}"


def shown(value: Interval | None, name: str) -> str:
    """A figure, and its interval if it has one; rates in percent."""
    if value is None:
        return "-"
    if name.startswith(("pass@", "maj@")):
        return percent(value)
    ends = f" [{value.low:.3f}, {value.high:.3f}]" if value.bounded else ""
    return f"{value.mean:.3f}{ends}"


def _tables(found: Mapping[str, Sequence[Row]]) -> Iterator[Table]:
    for env, rows in found.items():
        values = _columns(rows)
        table = Table(
            *("evaluation", "model", "tasks", "success %"),
            *values,
            "tokens out",
            "dollars",
            title=escape(printable(env)),
        )
        for row in rows:
            spent = row.figures.spent
            table.add_row(
                escape(printable(row.name)),
                escape(row.models),
                f"{row.figures.tasks} × {row.figures.samples}",
                percent(row.figures.success),
                *(shown(row.figures.values.get(name), name) for name in values),
                written(spent),
                "unknown" if spent.dollars is None else f"{spent.dollars:.2f}",
            )
        yield table


def _columns(rows: Sequence[Row]) -> list[str]:
    """Figures beside success. One that repeats it in every row, as in mathematics, is left out."""
    names = dict.fromkeys(name for row in rows for name in row.figures.values)
    return [
        name for name in names if any(row.figures.values.get(name) != row.figures.success for row in rows)
    ]


def _model(spec: Mapping[str, Any]) -> str:
    name = str(spec["name"])
    shown = split_address(name.partition(":")[2])[0] if kind_of(name) == SERVED else name
    shown = printable(shown)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"
