"""What a run shows while it is active: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mappa_rl.telemetry.pace import Marks, Pace
from mappa_rl.telemetry.stopwatch import Stopwatch

BARS = "▁▂▃▄▅▆▇█"
PLAIN_INTERVAL_S = 5.0
"""Least seconds between two plain lines of one phase."""


class Progress:
    """Follows a run through its phases. ``update`` is cheap, so call it often.

    ``phases`` names them in order; a phase that is not listed is shown without its number. Time left is that
    of the phase, estimated from its pace so far.
    """

    def __init__(self, title: str, phases: Sequence[str] = (), console: Console | None = None) -> None:
        self.title, self.phases = title, tuple(phases)
        self.console = console or Console()
        self.seconds: dict[str, float] = {}
        """Wall seconds of every phase so far, by name."""
        self.paces: dict[str, Pace] = {}
        """The pace of every phase so far that did work, by name; of a repeated phase the newest."""
        self.watch = Stopwatch()
        """Divides them further: generation, sandbox, coach, learner, rest."""
        self._live: Live | None = None
        self._started = self._phase_started = time.monotonic()
        self._phase, self._unit, self._first, self._done, self._total = "", "", 0, 0, 0
        self._marks = Marks()
        self._values: dict[str, float] = {}
        self._success: list[float] = []
        self._printed_at = 0.0

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._close_phase()

    def phase(self, name: str, total: int = 0, unit: str = "steps", done: int = 0) -> None:
        """Begin a phase of ``total`` units of work (0: unknown), of which ``done`` were finished before."""
        self._close_phase()
        self.watch.phase(name)
        self._phase, self._unit, self._done, self._total = name, unit, done, total
        self._first, self._marks = done, Marks()
        self._phase_started, self._printed_at = time.monotonic(), 0.0
        self._values = {}
        if self._live is None:
            self._print(self._where() + (f": {total:,} {unit}" if total else ""))

    def update(self, done: int, values: Mapping[str, float] | None = None) -> None:
        """``done`` units of the phase are finished; ``values`` are metrics, named as in metrics.jsonl."""
        self._done = done
        if values:
            self._values = {name: float(value) for name, value in values.items()}
            if math.isfinite(self._values.get("success", math.nan)):
                self._success.append(self._values["success"])
        now = time.monotonic()
        self._marks.add(now - self._phase_started, done - self._first)
        due = now - self._printed_at >= PLAIN_INTERVAL_S or done == self._total
        if self._live is None and due:
            self._printed_at = now
            self._print("  " + " · ".join([self._count(), *self._facts()]))

    def spent(self) -> dict[str, float]:
        """Wall seconds of every phase, with the one under way up to now; so is ``watch`` then."""
        self.watch.settle()
        now = {self._phase: time.monotonic() - self._phase_started} if self._phase else {}
        return self.seconds | {name: self.seconds.get(name, 0.0) + more for name, more in now.items()}

    def note(self, text: str) -> None:
        """Print one permanent line, above the live panel."""
        self._print(text)

    # -- rendering ----------------------------------------------------------------------------------------

    def _panel(self) -> RenderableType:
        head = Text.assemble(
            (self.title, "bold"), f"  {self._where()}  ", (f"{clock(self._elapsed)} so far", "dim")
        )
        row = Table.grid(padding=(0, 2))
        if self._total:
            row.add_row(
                ProgressBar(total=self._total, completed=self._done, width=36), self._count(), self._left()
            )
        else:
            row.add_row(self._count())
        parts: list[RenderableType] = [head, row]
        facts = self._facts(with_left=False)
        if facts:
            parts.append(Text("  ".join(facts)))
        if len(self._success) > 1:
            parts.append(Text.assemble(("success ", "dim"), (sparkline(self._success[-60:]), "green")))
        return Group(*parts)

    def _facts(self, with_left: bool = True) -> list[str]:
        rewards = {n.split("/", 1)[1]: v for n, v in self._values.items() if n.startswith("reward/")}
        facts = []
        if "success" in self._values:
            facts.append(f"success {self._values['success']:.0%}")
        if rewards:
            facts.append("reward " + " ".join(f"{agent} {value:.2f}" for agent, value in rewards.items()))
        if "loss" in self._values:
            facts.append(f"loss {self._values['loss']:.3f}")
        if "tokens_per_s" in self._values:
            facts.append(f"{self._values['tokens_per_s']:,.0f} tokens/s")
        if with_left and self._total and self._left():
            facts.append(self._left())
        return facts

    def _where(self) -> str:
        if self._phase in self.phases:
            return f"[{self.phases.index(self._phase) + 1}/{len(self.phases)}] {self._phase}"
        return self._phase

    def _count(self) -> str:
        return (
            f"{self._done:,}/{self._total:,} {self._unit}" if self._total else f"{self._done:,} {self._unit}"
        )

    def _left(self) -> str:
        if not self._first < self._done < self._total:
            return ""
        pace = (time.monotonic() - self._phase_started) / (self._done - self._first)
        return f"{clock(pace * (self._total - self._done))} left"

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _close_phase(self) -> None:
        if self._phase:
            spent = time.monotonic() - self._phase_started
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + spent
            pace = self._marks.pace(spent)
            if pace is not None:
                self.paces[self._phase] = pace
            self._phase = ""
            self.watch.phase("")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def sparkline(values: Sequence[float]) -> str:
    """One bar character per value, between the least and the greatest of them."""
    low, high = min(values), max(values)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((value - low) / step)] for value in values)


def clock(seconds: float) -> str:
    """``m:ss``, or ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
