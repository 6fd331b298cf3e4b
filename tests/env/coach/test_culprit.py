"""The action at fault, from verdicts and what ran."""

from __future__ import annotations

from typing import Any

import pytest

from mappa_env.coach.culprit import culprit_step
from mappa_env.registration import find_card
from mappa_env.types import ActionRecord, FileChange, ToolResult, Verdict
from recorded import recorded


def action(
    step: int,
    agent: str,
    blame: str | None,
    score: float = 5.0,
    ran: Any = None,
    wrote: str = "",
    opened: tuple[str, ...] | None = (),
) -> ActionRecord:
    files = (FileChange(wrote, "created", 1, ""),) if wrote else ()
    tool = None if ran is None else ToolResult(ran, 0, "", "", files=files, opened=opened)
    verdict = Verdict("ok", score, blame=blame)
    code = None if ran is None else "load()"
    return recorded(agent, step=step, code=code, tool=tool, verdict=verdict)


ME, NEXT = "engineer_0", "modeler_0"
WORK = ("train.csv",)


@pytest.mark.parametrize(
    ("step", "actions"),
    [
        (None, [action(0, ME, None, ran="ok"), action(1, NEXT, None, ran="ok")]),
        (0, [action(0, ME, ME, ran="ok", wrote="a"), action(1, ME, ME), action(2, NEXT, ME, ran="error")]),
        (1, [action(0, ME, ME, ran="ok"), action(1, ME, ME, ran="ok", wrote="a"), action(2, ME, ME)]),
        (0, [action(0, ME, ME, ran="ok", wrote="a"), action(1, ME, ME, ran="ok"), action(2, ME, ME)]),
        (1, [action(0, ME, ME, 1, ran="error"), action(1, ME, ME, ran="error"), action(2, ME, ME)]),
        (0, [action(0, ME, ME, ran="ok", opened=WORK), action(1, ME, ME, ran="ok"), action(2, ME, ME)]),
        (1, [action(0, ME, ME, ran="ok"), action(1, ME, ME, ran="ok", opened=WORK), action(2, ME, ME)]),
        (2, [action(0, ME, ME, ran="error"), action(1, ME, ME, ran="ok"), action(2, ME, ME)]),
        (1, [action(0, ME, ME, ran="ok"), action(1, ME, ME)]),
        (0, [action(0, ME, ME, ran="ok", opened=None), action(1, ME, ME)]),  # it may have used any file
        (1, [action(0, ME, None, ran="ok", wrote="a"), action(1, ME, ME)]),
        (1, [action(0, ME, None, ran="ok", wrote="a"), action(1, NEXT, NEXT, ran="error")]),
        (0, [action(0, ME, None, ran="ok", wrote="a"), action(1, NEXT, ME, ran="error")]),
        # Of two at fault, the worse one; of two as bad, the earlier one.
        (1, [action(0, ME, ME, 6, ran="ok", wrote="a"), action(1, NEXT, NEXT, 1, ran="error")]),
        (0, [action(0, ME, ME, 1, ran="ok", wrote="a"), action(1, NEXT, NEXT, 6, ran="error")]),
        (0, [action(0, ME, ME, 1, ran="ok", wrote="a"), action(1, NEXT, NEXT, 1, ran="error")]),
    ],
)
def test_the_action_at_fault(step: int | None, actions: list[ActionRecord]) -> None:
    assert culprit_step(actions, find_card("dsbench").team) == step


def test_who_hands_on_words_is_at_fault_in_its_last_run() -> None:
    coder, team = "coder_0", find_card("mathchat").team
    run = [action(0, coder, coder, 1, ran="error"), action(1, coder, coder, 2, ran="ok")]
    assert culprit_step([*run, action(2, coder, coder, 2)], team) == 1
    assert culprit_step([*run, action(2, coder, coder, 1)], team) == 2
