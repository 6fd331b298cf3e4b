"""Walking back along files: from what is missing or unusable to the action that should have made it right."""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.coach.artifacts import MODEL, Defect, defects, facts_of, section
from mappa_env.coach.case import Case, deleted_by, exception_of
from mappa_env.coach.checks_work import BLUNDERS
from mappa_env.types import FileChange, Link, Outcome


class FileWalk:
    """``cases``: all actions of a failed episode. ``links`` is the walk, from the end to the cause."""

    def __init__(self, cases: Sequence[Case], outcome: Outcome) -> None:
        self._cases, self._outcome = cases, outcome
        self._end = cases[-1].evidence.present
        self.links: list[Link] = []

    def run(self) -> tuple[int, ...]:
        """The actions that the trail holds responsible, in equal shares; none where it does not decide."""
        for path in self._cases[-1].evidence.agent.requires:
            change = self._end.get(path)
            if change is None or not change.agent:
                return self._missing(path, None)
            if self._outcome.status != "ok":
                return self._made(change, f"{path} is refused ({self._outcome.status})")
            if self._outcome.metrics.get("constant"):
                return self._made(change, f"{path} has the same value in every row")
        return ()

    def _missing(self, path: str, reader: int | None) -> tuple[int, ...]:
        """``path`` was not there when action ``reader`` needed it; None: at the end."""
        before = self._cases if reader is None else self._cases[:reader]
        for case in reversed(before):
            if path in deleted_by(case.evidence.tool):
                return self._blamed(case.evidence.step, f"deleted {path}")
        owner = next((spec.name for spec in self._cases[0].team if path in spec.requires), None)
        stay = [case for case in before if case.me == owner]
        if not stay:
            return ()
        tried = [case for case in stay if _tries(case)]
        if not tried:
            return self._blamed(stay[-1].evidence.step, f"ran no code, and had to write {path}")
        case = max(tried, key=lambda case: (_named(case), case.evidence.step))
        tool = case.evidence.tool
        if tool is not None and tool.status != "ok":
            return self._failed(case, f"had to write {path}")
        said = "its code never ran" if tool is None else f"did not write {path}"
        if case.evidence.claims:
            said += f", but says so of {', '.join(case.evidence.claims[:3])}"
        last = stay[-1]
        if last is case or last.evidence.tool is not None or len(stay) == last.evidence.agent.max_turns:
            return self._blamed(case.evidence.step, said)
        self.links.append(Link(last.evidence.step, f"ended the stay without {path}"))
        return (*self._blamed(case.evidence.step, said), last.evidence.step)

    def _failed(self, case: Case, why: str) -> tuple[int, ...]:
        """The code of this action failed: by its own fault, or by what it was given."""
        evidence, tool = case.evidence, case.evidence.tool
        assert tool is not None
        name, line = exception_of(tool)
        how = line or tool.status
        if name == "FileNotFoundError":
            for path in evidence.missing:
                if path in (evidence.code or "") and path in line:
                    self.links.append(Link(evidence.step, f"{why}; {path} was missing"))
                    return self._missing(path, evidence.step)
        if tool.status == "error" and name not in BLUNDERS:
            spoiled = self._spoiled(case)
            if spoiled is not None:
                self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
                return self._blamed(spoiled.step, f"overwrote {spoiled.path}")
            defect = self._defect(case)
            if defect is not None:
                self.links.append(Link(evidence.step, f"{why}; its code failed ({how})"))
                return self._defective(case, defect)
            if self._blind(case):
                return self._open(evidence.step, f"{why}; its code failed ({how})")
        return self._blamed(evidence.step, f"{why}; its code failed ({how})")

    def _made(self, change: FileChange, what: str) -> tuple[int, ...]:
        """``change`` was made, and is wrong: by its writer, or by what the writer was given."""
        case = self._cases[change.step]
        spoiled = self._spoiled(case)
        if spoiled is not None:
            self.links.append(Link(case.evidence.step, what))
            return self._blamed(spoiled.step, f"overwrote {spoiled.path}")
        defect = self._defect(case)
        if defect is None and self._outcome.status == "ok":
            defect = self._constant_model(case)
        if defect is not None:
            self.links.append(Link(case.evidence.step, what))
            return self._defective(case, defect)
        return self._open(change.step, what) if self._blind(case) else self._blamed(change.step, what)

    def _defective(self, reader: Case, defect: Defect) -> tuple[int, ...]:
        change = reader.evidence.present[defect.path]
        writer = self._cases[change.step]
        deeper = self._defect(writer)
        what = f"{defect.path} cannot be used: {defect.reason}"
        if deeper is None:
            return self._blamed(change.step, what)
        self.links.append(Link(change.step, what))
        return self._defective(writer, deeper)

    def _defect(self, case: Case) -> Defect | None:
        """What was wrong, as far as the last probe saw, with a file of others that this code names."""
        code = case.evidence.code or ""
        upstream = (d for d in defects(case) if d.writer not in ("", case.me) and d.path in code)
        return next((d for d in upstream if case.evidence.present[d.path].step < case.evidence.step), None)

    def _spoiled(self, case: Case) -> FileChange | None:
        """A file that this code names and that another agent wrote, who had no business with it."""
        code, team = case.evidence.code or "", case.team
        used = {path for spec in team for path in (*spec.reads, *spec.requires) if path in code}
        for path, change in case.evidence.present.items():
            if path in used and change.agent not in ("", case.me) and path not in team[change.agent].requires:
                return change
        return None

    def _constant_model(self, case: Case) -> Defect | None:
        change, facts = case.evidence.present.get(MODEL), facts_of(case)
        if change is None or change.agent == case.me or MODEL not in (case.evidence.code or ""):
            return None
        if facts is None or not section(facts, "model").get("constant"):
            return None
        return Defect(MODEL, change.agent, "it predicts the same value for every row")

    def _blind(self, case: Case) -> bool:
        """Whether this code used what others made, and nobody has looked inside."""
        present, code = case.evidence.present, case.evidence.code or ""
        used = (p for p, change in present.items() if change.agent not in ("", case.me) and p in code)
        return facts_of(case) is None and any(used)

    def _open(self, step: int, why: str) -> tuple[int, ...]:
        """The trail ends here without telling whose fault it is."""
        self.links.append(Link(step, f"{why}; no probe has looked into what it was given"))
        return ()

    def _blamed(self, step: int, why: str) -> tuple[int, ...]:
        self.links.append(Link(step, why))
        return (step,)


def _tries(case: Case) -> bool:
    """Whether this action did, or shows or claims, some of its agent's work: code, run or not, or files."""
    evidence = case.evidence
    return evidence.tool is not None or bool(evidence.claims) or "```" in case.answer


def _named(case: Case) -> int:
    """How many of its agent's files an action names: a look around names fewer than the work itself."""
    spec = case.evidence.agent
    text = case.evidence.code or case.answer
    return sum(path in text for path in {*spec.requires, *spec.reads})
