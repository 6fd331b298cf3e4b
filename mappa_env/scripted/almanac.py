"""The Almanac script: a scout looks up one link after the other, a scribe boxes what the scout reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mappa_env.scripted.base import Act, FaultPlan
from mappa_env.types import ActionRecord, Task

_FOUND = re.compile(r"^[ \t]*found:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_NOTHING = "nothing"


class AlmanacScript:
    """See the module. The scout reports the answer only if its searches found every document of it."""

    faults: Mapping[str, tuple[str, ...]] = {
        "scout": ("no_search", "repeats_itself", "stops_early", "wrong_tool"),
        "scribe": ("no_box", "miscopied"),
    }

    def act(self, act: Act) -> str:
        """See ``Script.act``."""
        return _scout(act) if act.role == "scout" else _scribe(act)


def _scout(act: Act) -> str:
    subjects: Sequence[str] = act.task.truth["subjects"]
    path: Sequence[str] = act.task.meta["path"]
    last = 1 if act.fault == "stops_early" else len(subjects)
    if act.fault == "no_search":
        return _report(act, "I know this.", _other(act.task))
    if act.turn < last:
        name, relation = subjects[act.turn], path[act.turn]
        if act.fault == "repeats_itself":
            name, relation = subjects[0], path[0]
        if act.fault == "wrong_tool":
            return _explained(act, "I look it up.", f"```python\nprint({name!r})\n```")
        return _explained(act, f"I look up {name}.", f"```search\n{name} {relation}\n```")
    seen = {path for record in act.own for call in record.calls for path in call.facts.get("documents", ())}
    if act.fault == "stops_early" and len(subjects) > 1:
        return _report(act, "This must be it.", subjects[1])
    if act.fault == "stops_early":
        return _report(act, "This must be it.", _other(act.task))
    complete = seen >= set(act.task.truth["documents"])
    return _report(act, "The documents say so.", act.task.truth["answer"] if complete else _NOTHING)


def _scribe(act: Act) -> str:
    said = _handed_on(act.history)
    if act.fault == "no_box":
        return _explained(act, "The scout found it.", f"answer: {said}")
    if act.fault == "miscopied":
        said = _other(act.task)
    return _explained(act, "The scout found it.", rf"answer: \boxed{{{said}}}")


def _handed_on(history: Sequence[ActionRecord]) -> str:
    found = [value for record in history for value in _FOUND.findall(record.answer)]
    return found[-1].strip() if found else _NOTHING


def _report(act: Act, why: str, value: str) -> str:
    return _explained(act, why, f"found: {value}")


def _explained(act: Act, why: str, text: str) -> str:
    return f"{why}\n{text}" if act.style == "full" else text


def _other(task: Task) -> str:
    """A value that is no answer: the subject that the question begins with."""
    return str(task.meta["start"])


SCRIPT = AlmanacScript()
FAULTY = FaultPlan(
    rates={"scout": 0.2, "scribe": 0.1},
    usual={
        ("2-hop", "scout"): ("stops_early", 0.5),
        ("3-hop", "scout"): ("repeats_itself", 0.5),
        ("1-hop", "scribe"): ("no_box", 0.5),
    },
)
"""The faulty team: habits by the number of links, and random faults elsewhere."""
