"""Checks for agents that look things up: did they ask, did they find, did they report it.

They rely on what the host saw of the calls and on the agents' own words. What a server answers has no part,
a failure included: it could say anything. What was found counts only where the host itself searched
(``ToolCall.facts``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mappa_env.coach.rubric.case import Case, Finding
from mappa_env.grading.text import MAX_BOX, plain
from mappa_env.parsing import last_boxed, split_thinking
from mappa_env.types import ActionRecord, ToolCall

_FOUND = re.compile(r"^[ \t]*found:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)
NOTHING = "nothing"
"""What an honest agent reports that found no answer."""


def searched(
    case: Case, *, repeated: float = 0.2, failed: float = 0.3, refused: float = 0.1
) -> Finding | None:
    """Check the calls of this action; without any, whether the segment has made one.

    ``repeated``: it only asks again what this segment has asked. ``failed``: the host's own tools failed with
    an error, or a call was refused. ``refused``: the host carried none out. A server's failure is no fault of
    who asked.
    """
    calls = case.evidence.calls
    if not calls:
        if any(call.status != "refused" for record in case.own for call in record.calls):
            return None
        return Finding(0.0, "no tool was called, although this work needs one", case.me)
    if all(call.status == "refused" for call in calls):
        return Finding(refused, "no call could be carried out", case.me)
    if all(_failed(call) for call in calls):
        return Finding(failed, "no call came to a result")
    before = {_asked(call) for record in case.own for call in record.calls}
    if all(_asked(call) in before for call in calls):
        return Finding(repeated, "it asks again what it has asked before", case.me)
    return Finding(1.0, "it asked something new")


def retrieved(case: Case, *, nothing: float = 0.3) -> Finding | None:
    """Check whether this action found a document of the answer that the segment had not found yet.

    ``nothing``: it did not. Only for searches by the host, and only if the coach may use the truth.
    """
    truth = case.evidence.truth
    if truth is None or "documents" not in truth or not any(call.facts for call in case.evidence.calls):
        return None
    needed = set(truth["documents"])
    before = _documents(call for record in case.own for call in record.calls) & needed
    if new := (_documents(case.evidence.calls) & needed) - before:
        return Finding(1.0, f"it found {len(new)} of the documents that are needed, for the first time")
    return Finding(nothing, "it found none of the documents that are still needed", case.me)


def reported(case: Case, *, wrong: float = 0.1, none: float = 0.3) -> Finding | None:
    """Check the line ``found: <answer>`` of the action that ends the segment.

    ``none``: it reports nothing. ``wrong``: another value than the truth. 0: there is no such line.
    """
    truth = case.evidence.truth
    if truth is None or not case.evidence.last_turn:
        return None
    said = report_of(case.evidence.action)
    if said is None:
        return Finding(0.0, "it ends without a line 'found: ...'", case.me)
    if said == plain(str(truth["answer"])):
        return Finding(1.0, "what it reports is right")
    if said == NOTHING:
        return Finding(none, "it reports that it found nothing", case.me)
    return Finding(wrong, f"what it reports is wrong: {said[:80]!r}", case.me)


def text_answer(
    case: Case, *, wrong: float = 0.1, followed: float = 0.8, blocked: float = 0.6, idle: float = 0.3
) -> Finding | None:
    r"""Check the answer in ``\boxed{}`` against the truth and against what an agent before reported.

    ``followed``: wrong, but as reported. ``blocked``: an answer where none was reported, ``idle``: no box
    there. 0: no box, although there was a report.
    """
    truth = case.evidence.truth
    if truth is None or not case.evidence.last_turn:
        return None
    box = last_boxed(case.answer)
    said = plain(box) if box is not None and len(box) <= MAX_BOX else ""
    if said and said == plain(str(truth["answer"])):
        return Finding(1.0, "the answer is right")
    source, report = _last_report(case.before)
    if report in (None, NOTHING):
        blame = source or next((record.agent for record in reversed(case.before)), case.me)
        return Finding(blocked if said else idle, "no answer reached it", blame)
    if not said:
        return Finding(0.0, r"there is no answer in \boxed{}", case.me)
    if said == report:
        return Finding(followed, "the answer is wrong, as it was reported", source)
    return Finding(wrong, "the answer is wrong, and not what was reported", case.me)


def report_of(action: str) -> str | None:
    """The words of the last line ``found: ...``; None if there is none."""
    lines = _FOUND.findall(split_thinking(action)[1])
    return plain(lines[-1][:MAX_BOX]) or NOTHING if lines else None


def _last_report(before: Iterable[ActionRecord]) -> tuple[str, str | None]:
    found = [(record.agent, said) for record in before if (said := report_of(record.action)) is not None]
    return found[-1] if found else ("", None)


def _asked(call: ToolCall) -> str:
    return f"{call.tool} {sorted((name, str(value)) for name, value in call.arguments.items())}".casefold()


def _failed(call: ToolCall) -> bool:
    """Whether the host saw it fail. A time-out and a flood may be a server's doing, too."""
    return call.status == "refused" or (call.status == "error" and call.attester == "host")


def _documents(calls: Iterable[ToolCall]) -> set[str]:
    return {
        document
        for call in calls
        if call.attester == "host" and call.status == "ok"
        for document in call.facts.get("documents", ())
    }
