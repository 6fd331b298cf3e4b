"""How runs were made: command lines, settings, versions and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mappa_env.viewer.page import REPORT
from mappa_rl.config.command_lines import read_commands
from mappa_rl.report.groups import Group
from mappa_rl.report.links import to_file
from mappa_rl.report.runs import RunData
from mappa_rl.report.settings import Setting, changed


@dataclass(frozen=True, slots=True)
class MadeRun:
    """How one run was made; figures are formatted, ``-`` while it is unfinished. ``link``: to its report."""

    label: str
    folder: str
    link: str
    seed: int
    group: str
    episodes: str
    wall: str
    phases: Mapping[str, str]
    fractions: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Made:
    """How all runs of a page were made. ``settings`` and ``config`` are those of the first run."""

    heading: str
    """Column head over the groups' labels; empty for one group."""
    commands: Sequence[str]
    runs: Sequence[MadeRun]
    versions: Mapping[str, Sequence[str]]
    """Package, ``python`` or ``commit`` -> the versions that the runs were made with."""
    settings: Sequence[Setting]
    config: str

    @property
    def phases(self) -> list[str]:
        """Names of all runs' phases, in order."""
        return list(dict.fromkeys(name for run in self.runs for name in run.phases))


def made(groups: Sequence[Group], page: Path) -> Made:
    """Gather it. ``page``: the file from which links start."""
    runs = [run for group in groups for run in group.runs]
    first = runs[0]
    lines = [line.command for run in runs for line in read_commands(run.folder)]
    versions: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in (run.summary.versions if run.summary else {}).items():
            versions.setdefault(name, {})[version] = None
    commands = list(dict.fromkeys(lines))
    return Made(
        heading=groups[0].heading if len(groups) > 1 else "",
        commands=commands,
        runs=[_made(run, group, page) for group in groups for run in group.runs],
        versions={name: list(found) for name, found in versions.items()},
        settings=changed(first.config, commands),
        config=first.config.dump(),
    )


def duration(seconds: float) -> str:
    """Format seconds as ``75 s``, ``12 min 30 s`` or ``3 h 05 min``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _made(run: RunData, group: Group, page: Path) -> MadeRun:
    summary = run.summary
    return MadeRun(
        label=", ".join(part for part in (group.label, f"seed {run.seed}") if part),
        folder=run.folder.name,
        link=to_file(page, run.folder / REPORT),
        seed=run.seed,
        group=group.label,
        episodes=f"{summary.episodes:,}" if summary else "-",
        wall=duration(summary.wall_seconds) if summary else "-",
        phases={name: duration(spent) for name, spent in summary.phases.items()} if summary else {},
        fractions=summary.fractions if summary else {},
    )
