"""An order in words, for those who judge a team."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mappa_env.order.conditions import Agree, Condition, Says, Status
from mappa_env.order.steps import Act, Choose, Parallel, Repeat, Step, When

HEAD = """\
Who acts when. Unless a step says otherwise, whoever acts can see what the others have said before. An agent
that acts again keeps its conversation."""


def in_words(steps: tuple[Step, ...]) -> str:
    """Numbered lines that say who acts when and who does not see whom."""
    return "\n".join((HEAD, *_lines(steps, "")))


def _lines(steps: tuple[Step, ...], at: str) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        here = f"{at}{number}."
        match step:
            case Act(agent):
                yield f"{here} {agent} acts."
            case Parallel(agents):
                yield f"{here} {_all(agents)} act in parallel: none sees what the others do in this step."
            case Repeat(body, times, until):
                ends = "" if until is None else f", or until {_condition(until)}"
                yield f"{here} {times} times{ends}:"
                yield from _lines(body, here)
            case When(condition, then, otherwise):
                yield f"{here} If {_condition(condition)}:"
                yield from _lines(then, here)
                if otherwise:
                    yield f"{here} Otherwise:"
                    yield from _lines(otherwise, here)
            case Choose(manager, among, times):
                yield (
                    f"{here} {manager} acts and calls {_all(among, 'or')} with the line `next: <agent>`, up "
                    f"to {times} times. That agent acts, then {manager} again. `next: done` ends this step."
                )


def _condition(condition: Condition) -> str:
    match condition:
        case Says(agent, key, value):
            return f"{agent} has said `{key}: {value}` last"
        case Status(agent, status):
            return f"the last code of {agent} ended with the status {status}"
        case Agree(agents):
            return f"the newest answers of {_all(agents)} are the same"


def _all(names: Sequence[str], last: str = "and") -> str:
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final
