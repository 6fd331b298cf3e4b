"""Backward tracing along files: from a missing or unusable file to the action responsible for it."""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.artifacts import (
    MODEL,
    Defect,
    breaker_of,
    defects,
    facts_of,
    looks_of,
    section,
)
from mappa_env.coach.rubric.case import Case, deleted_by
from mappa_env.coach.rubric.helper_failures import failed_over
from mappa_env.coach.rubric.helper_files import Damage, damages, runs_of
from mappa_env.coach.rubric.inputs import foreign_input
from mappa_env.coach.rubric.usage import explains
from mappa_env.types import FileChange, Link, Outcome


class FileWalk:
    """Traces a failed episode through its files. ``cases``: all its actions; ``links``: the walk so far.

    ``links`` run from the end of the episode to the cause.
    """

    def __init__(self, cases: Sequence[Case], outcome: Outcome) -> None:
        self._cases, self._outcome = cases, outcome
        self._end = cases[-1].evidence.present
        self._records = cases[-1].evidence.history
        self.links: list[Link] = []

    def run(self) -> tuple[int, ...]:
        """The steps of the responsible actions, all equally; empty if the file history does not decide."""
        for path in self._cases[-1].evidence.agent.requires or self._cases[-1].products:
            change = self._end.get(path)
            if change is None or not change.agent:
                return self._missing(path, None)
            if self._outcome.status != "ok":
                return self._made(change, f"{path} is refused ({self._outcome.status})")
            if self._outcome.metrics.get("constant"):
                return self._made(change, f"{path} has the same value in every row")
        return ()

    def _missing(self, path: str, reader: int | None) -> tuple[int, ...]:
        """``path`` did not exist when action ``reader`` needed it; None: at the end."""
        before = self._cases if reader is None else self._cases[:reader]
        for case in reversed(before):
            if path in deleted_by(case.evidence.tool):
                return self._blamed(case.evidence.step, f"deleted {path}")
        owners = [spec.name for spec in self._cases[0].team if path in spec.requires]
        acted = {case.me for case in before}
        owner = next((name for name in owners if name in acted), None)
        if owner is None:
            return self._never_called(owners, path, reader)
        start = max(len(case.before) for case in before if case.me == owner)
        segment = [case for case in before if case.me == owner and len(case.before) == start]
        tried = [case for case in segment if case.evidence.tool is not None]
        if not tried:
            return self._blamed(segment[-1].evidence.step, f"ran no code, and had to write {path}")
        case, last = max(tried, key=lambda case: (_aimed(case), case.evidence.step)), segment[-1]
        left = last.evidence.tool is None and len(segment) < last.evidence.agent.max_turns
        if left and not _aimed(case) and case.programs[-1].tool.status == "ok":
            return self._blamed(last.evidence.step, f"ended the segment without {path}; nothing had tried")
        tool = case.evidence.tool
        assert tool is not None
        if tool.status != "ok":
            return self._failed(case, f"had to write {path}")
        said = f"did not write {path}"
        if not left:
            return self._blamed(case.evidence.step, said)
        self.links.append(Link(last.evidence.step, f"ended the stay without {path}"))
        return (*self._blamed(case.evidence.step, said), last.evidence.step)

    def _never_called(self, owners: Sequence[str], path: str, reader: int | None) -> tuple[int, ...]:
        """Nobody that has to write ``path`` had acted: the manager that could have called one is to blame."""
        if reader is not None:
            called = self._cases[reader]
            call = called.order.chosen_by(called.evidence.history)
            choices = [] if call is None else [self._cases[call.step]]
            why = f"called {called.me} before anybody had to write {path}"
        else:
            choices, why = [case for case in self._cases if case.offered], f"never had {path} written"
        if choices and set(owners).intersection(choices[-1].offered):
            return self._blamed(choices[-1].evidence.step, why)
        return ()

    def _failed(self, case: Case, why: str) -> tuple[int, ...]:
        """The code of this action failed: by its own fault, or because of its input."""
        evidence, tool = case.evidence, case.evidence.tool
        assert tool is not None
        how, defect = exception_of(tool)[1] or tool.status, self._defect(case)
        if (damage := self._damage(case)) is not None:
            self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
            return self._blamed(damage.step, f"{damage.path} was {damage.how}")
        if defect is not None and explains(defect, case.programs[-1]):
            self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
            return self._defective(case, defect)
        run = case.programs[-1]
        for path in evidence.missing:
            if run.failed or run.uses(path):  # a blunder in its way around it is no reason to stop here
                self.links.append(Link(evidence.step, f"{why}; {path} was missing"))
                return self._missing(path, evidence.step)
        if defect is not None and not run.failed and run.uses(defect.path):
            self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
            return self._defective(case, defect)
        if run.failed:
            overwritten = self._overwritten(case)
            if overwritten is not None:
                self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
                return self._blamed(overwritten.step, f"overwrote {overwritten.path}")
            if defect is not None:
                self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
                return self._defective(case, defect)
            if self._blind(case):
                return self._open(evidence.step, f"{why}; its code failed ({how})")
        return self._blamed(evidence.step, f"{why}; its code failed ({how})")

    def _made(self, change: FileChange, what: str) -> tuple[int, ...]:
        """``change`` made a wrong file: by its writer's fault, or because of the writer's input."""
        case = self._cases[change.step]
        overwritten = self._overwritten(case)
        if overwritten is not None:
            self.links.append(Link(case.evidence.step, what))
            return self._blamed(overwritten.step, f"overwrote {overwritten.path}")
        defect = self._defect(case)
        if defect is None and self._outcome.status == "ok":
            defect = self._constant_model(case)
        if defect is not None:
            self.links.append(Link(case.evidence.step, what))
            return self._defective(case, defect)
        return self._open(change.step, what) if self._blind(case) else self._blamed(change.step, what)

    def _defective(self, reader: Case, defect: Defect) -> tuple[int, ...]:
        change = reader.evidence.present.get(defect.path)
        what = f"{defect.path} cannot be used: {defect.reason}"
        if change is None or change.step >= reader.evidence.step:  # it has replaced or deleted it since
            return self._open(reader.evidence.step, what)
        breaker = breaker_of(change, looks_of(self._records))
        if breaker is not None:
            return self._blamed(breaker.step, f"changed a module that {defect.path} needs")
        writer = self._cases[change.step]
        deeper = self._defect(writer)
        if deeper is None:
            return self._blamed(change.step, what)
        self.links.append(Link(change.step, what))
        return self._defective(writer, deeper)

    def _defect(self, case: Case) -> Defect | None:
        """The defect, found by the last probe or by this agent, of an input that another agent wrote."""
        reads = case.evidence.agent.reads
        upstream = (d for d in defects(case) if d.writer not in ("", case.me) and d.path in reads)
        earlier = (d for d in upstream if case.evidence.present[d.path].step < case.evidence.step)
        return next(earlier, None) or foreign_input(case)

    def _damage(self, case: Case) -> Damage | None:
        """What another agent did to a file that no card names, and over which this program failed."""
        for each in damages(runs_of(case.before), case.evidence.task, case.team):
            if each.agent != case.me and failed_over(case.programs[-1], each):
                return each
        return None

    def _overwritten(self, case: Case) -> FileChange | None:
        """An input that an agent not responsible for it wrote last."""
        for path in case.evidence.agent.reads:
            change = case.evidence.present.get(path)
            if change is None or change.agent in ("", case.me):
                continue
            if path not in case.team[change.agent].requires:
                return change
        return None

    def _constant_model(self, case: Case) -> Defect | None:
        change, facts = case.evidence.present.get(MODEL), facts_of(case)
        if change is None or change.agent == case.me or MODEL not in case.evidence.agent.reads:
            return None
        if facts is None or not section(facts, "model").get("constant"):
            return None
        return Defect(MODEL, change.agent, "it predicts the same value for every row")

    def _blind(self, case: Case) -> bool:
        """Whether this agent's inputs include other agents' files that no probe has opened."""
        present = case.evidence.present
        used = (present[path].agent for path in case.evidence.agent.reads if path in present)
        return facts_of(case) is None and any(writer not in ("", case.me) for writer in used)

    def _open(self, step: int, why: str) -> tuple[int, ...]:
        """The walk ends here without a decision."""
        self.links.append(Link(step, f"{why}; no probe has looked into what it was given"))
        return ()

    def _blamed(self, step: int, why: str) -> tuple[int, ...]:
        self.links.append(Link(step, why))
        return (step,)


def _aimed(case: Case) -> int:
    """How many of its agent's files a program was for: exploration is for fewer than the work itself."""
    spec = case.evidence.agent
    return case.programs[-1].aims_at({*spec.requires, *spec.reads})
