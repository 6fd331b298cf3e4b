"""Where an answer came from: back along what each action could see."""

from __future__ import annotations

from collections.abc import Container, Sequence

from mappa_env.coach.rubric.case import Case


def origins(cases: Sequence[Case], end: int, stated: Container[int]) -> tuple[int, ...]:
    """The steps that brought up what ``end`` says, in ascending order; ``end`` itself, if it had not seen it.

    ``stated``: the steps that say it. Those brought it up who said it when they could see nobody who had.
    """
    open_, met, first = [end], set[int](), set[int]()
    while open_:
        step = open_.pop()
        if step in met:
            continue
        met.add(step)
        before = [record.step for record in cases[step].seen if record.step in stated]
        open_ += before
        if not before:
            first.add(step)
    return tuple(sorted(first))
