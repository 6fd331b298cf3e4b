"""``mappa-env contamination``: whether older contests are easier for a model than newer ones."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mappa_env.commands._shared import at_least, check_target, command, write_json
from mappa_env.envs.tables import print_whole
from mappa_env.errors import EvaluationError, OptionError

if TYPE_CHECKING:
    from mappa_env.evaluation.contamination import Contamination
    from mappa_env.evaluation.episodes import Played
    from mappa_env.evaluation.figures import Figures
    from mappa_env.evaluation.folder import Evaluation
    from mappa_env.statistics.intervals import Interval

SUCCESS, PROBE = "success", "verbatim continuations"
UNCHECKED = (
    "An earlier version played a part of this and kept no digest of the tasks: only their ids say that both "
    "models had the same ones."
)
PROBE_TOKENS = 512
"""Tokens of a continuation, unless the evaluation has a lower limit."""


def add(commands: Any) -> None:
    """Add ``contamination`` to ``commands``."""
    parser = command(
        commands,
        "contamination",
        run,
        "compare a model on older and newer contests, by an evaluation's folder",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of 'mappa-env eval'")
    parser.add_argument(
        "--cutoff",
        type=at_least(1950),
        metavar="YEAR",
        help="the last year whose contests the model may have been trained on",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FOLDER",
        help="evaluation on the same tasks of a model whose training ended earlier: compare the lead over it",
    )
    parser.add_argument(
        "--years", type=Path, metavar="PATH", help="JSON object: task id -> year, for ids that do not tell"
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also ask the evaluation's model to continue every task's text: one call a task",
    )
    parser.add_argument(
        "--concurrency", type=at_least(1), default=16, metavar="N", help="calls at once (default: 16)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")


def run(args: argparse.Namespace) -> int:
    """Print a table for each environment, or why there is none.

    Returns 0. Raises EvaluationError if nothing could be reported; OptionError, DataError, CoachStopped.
    """
    from mappa_env.evaluation.contamination import LIMITS
    from mappa_env.evaluation.episodes import load
    from mappa_env.evaluation.folder import read
    from mappa_env.evaluation.years import read_years

    check_target("--json", args.json)
    known, evaluation = read_years(args.years), read(args.folder)
    if args.probe:
        _model(evaluation.settings)
    base = None
    if args.reference is not None:
        read(args.reference)
        base = load(args.reference)
    work = _Work(args, evaluation, load(args.folder), base, known)
    console = Console()
    found: list[Contamination] = []
    missing: dict[str, str] = {}
    try:
        for each in evaluation.figures:
            try:
                for report in work.reports(each):
                    found.append(report)
                    print_whole(_table(report))
                    for line in _lines(report, args.cutoff):
                        console.print(line, markup=False, soft_wrap=True)
                if work.unchecked(each.env):
                    console.print(UNCHECKED, markup=False, soft_wrap=True)
            except EvaluationError as error:
                missing[each.env] = str(error)
    finally:  # a probe costs money: what is there is kept, whatever happens
        if args.json and found:
            reports = [_document(report) for report in found]
            write_json(args.json, {"reports": reports, "missing": missing, "limits": list(LIMITS)})
    if not found:
        raise EvaluationError(" ".join(missing.values()))
    for why in missing.values():
        console.print(f"not reported: {why}", markup=False, soft_wrap=True)
    for line in LIMITS:
        console.print(line, markup=False, style="dim")
    return 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
    """What is compared. ``base``: the reference's episodes."""

    args: argparse.Namespace
    evaluation: Evaluation
    played: Sequence[Played]
    base: Sequence[Played] | None
    known: Mapping[str, int]

    def reports(self, figures: Figures) -> Iterator[Contamination]:
        """Those of one environment. Raises EvaluationError if it has none; OptionError, CoachStopped."""
        from mappa_env.evaluation.contamination import contamination, success_by_task

        env, cutoff, known = figures.env, self.args.cutoff, self.known
        values, what, draws = success_by_task(self.played, env), SUCCESS, figures.samples
        if self.base is None:
            yield contamination(env, what, values, known, cutoff, draws)
        else:
            theirs = success_by_task(self.base, env)
            values = {task: value - theirs[task] for task, value in values.items() if task in theirs}
            what = f"{SUCCESS} minus that of {self.args.reference.name}"
            if not values:
                raise EvaluationError(f"--reference {self.args.reference} has no task of {env} in common.")
            self._check_same(env, values)
            yield contamination(env, what, values, known, cutoff)
        if self.args.probe:
            yield contamination(env, PROBE, self._probed(env, values), known, cutoff, 1)

    def _probed(self, env: str, tasks: Iterable[str]) -> dict[str, float]:
        return _probed(self.args.folder, env, self.evaluation, self.args.concurrency, tasks, self.played)

    def _check_same(self, env: str, tasks: Iterable[str]) -> None:
        """Raises EvaluationError if the reference played other tasks under the ids ``tasks``."""
        from mappa_env.evaluation.contents import known, some

        mine, theirs = known(self.played), known(self.base or ())
        keys = [(env, task) for task in tasks if (env, task) in mine and (env, task) in theirs]
        other = [task for env, task in keys if mine[env, task] != theirs[env, task]]
        if other:
            raise EvaluationError(
                f"--reference {self.args.reference} played other tasks of {env} under the same ids "
                f"({some(other)}): evaluate both models on the same task file."
            )

    def unchecked(self, env: str) -> bool:
        """Whether an episode does not say what its task was, so that only ids say that tasks are the same."""
        episodes = [*self.played, *(self.base or ())]
        return self.base is not None and not all(each.content for each in episodes if each.env == env)


def _model(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """(agent, specification) of the one model that played. Raises OptionError if there is none to probe."""
    from mappa_env.evaluation.participants import SERVED, kind_of

    agents = sorted(settings["models"])
    names = sorted({str(spec["name"]) for spec in settings["models"].values()})
    if len(names) != 1 or kind_of(names[0]) != SERVED:
        raise OptionError(f"--probe asks one model behind a server, and here {', '.join(names)} played.")
    return agents[0], settings["models"][agents[0]]


def _probed(
    folder: Path,
    env: str,
    evaluation: Evaluation,
    threads: int,
    tasks: Iterable[str],
    played: Iterable[Played],
) -> dict[str, float]:
    """Task id -> 1.0 if the evaluation's model continued its text verbatim, else 0.0."""
    from mappa_env.coach.llm.wire import Passing, Rejected
    from mappa_env.envs.team_env import TeamEnv
    from mappa_env.evaluation.chat import Chat
    from mappa_env.evaluation.completion import probe
    from mappa_env.evaluation.contents import check_contents
    from mappa_env.evaluation.ledgers import ledger_of
    from mappa_env.evaluation.lock import locked
    from mappa_env.evaluation.patience import ServerAway
    from mappa_env.registration import card_of

    settings = evaluation.settings
    agent, spec = _model(settings)
    options: dict[str, Any] = {"ledger": str(ledger_of(folder, agent))}
    options |= {key: value for key, value in spec.items() if key != "name"} | {"temperature": 0.0}
    options["max_output_tokens"] = min(options.get("max_output_tokens", PROBE_TOKENS), PROBE_TOKENS)
    team = TeamEnv(card_of(env), tasks=settings["tasks"], coach="off", sandbox="null")
    check_contents(folder, played, {env: team.episode.tasks})
    texts = [(task, team.episode.tasks.get(task).prompt) for task in tasks]
    team.close()
    with locked(folder):  # its ledger has one writer
        chat = Chat(str(spec["name"]), options)
        try:
            chat.recall({name for names in evaluation.versions.values() for name in names})
            answered = probe(chat.speak, texts, threads=threads)
        except (Passing, Rejected, ServerAway) as error:
            raise EvaluationError(f"--probe of {env}: {error}") from None
        finally:
            chat.close()
    if not answered:
        raise EvaluationError(f"--probe of {env}: no text is long enough to be continued.")
    return {each.task_id: float(each.verbatim) for each in answered}


def _table(report: Contamination) -> Table:
    table = Table(
        "year", "tasks", escape(f"{report.what} %"), title=f"{escape(report.env)}: {escape(report.what)}"
    )
    for year, value in report.years.items():
        table.add_row(str(year), str(value.n), _percent(value))
    return table


def _lines(report: Contamination, cutoff: int | None) -> list[str]:
    held = ", with problem numbers held equal" if report.strata else ""
    test = f"permutation test over {report.tasks} tasks, one-sided{held}"
    lines = [f"older years easier: {_shown(report.p, report.untested)} ({test})"]
    if report.unknown:
        lines.append(f"{report.unknown} tasks are left out: their year is unknown; --years names it.")
    gap = report.gap
    if gap is not None:
        lines += [
            f"up to {gap.cutoff}: {_percent(gap.before)} of {gap.before.n} tasks",
            f"later: {_percent(gap.after)} of {gap.after.n} tasks",
            f"difference: {_percent(gap.difference)}, {_shown(gap.p, gap.untested)}",
        ]
    elif cutoff is not None:
        lines.append(f"all tasks are on one side of --cutoff {cutoff}: there is nothing to compare.")
    return lines


def _document(report: Contamination) -> dict[str, Any]:
    found = dataclasses.asdict(report)
    found["years"] = {str(year): value._asdict() for year, value in report.years.items()}
    if report.gap is not None:
        for name in ("before", "after", "difference"):
            found["gap"][name] = getattr(report.gap, name)._asdict()
    return found


def _percent(value: Interval) -> str:
    from mappa_env.evaluation.leaderboard import percent

    return percent(value)


def _shown(p: float | None, untested: str) -> str:
    return f"cannot be tested: {untested}" if p is None else f"p = {p:.4f}"
