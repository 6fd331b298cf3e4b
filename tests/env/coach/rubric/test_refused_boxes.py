"""Refused boxes with a right value, programs that name an answer, reports beside a program."""

from __future__ import annotations

import pytest

from mappa_env.coach.culprit import culprit
from rubric_play import SUM, Play, code, ran, summed

BOXES = [
    r"\boxed{\text{Each friend gets } 14 \text{ stamps}}",
    r"\boxed{14 \text{ stamps for each of the 7 friends}}",
    r"\boxed{\text{14 or 15}}",
    r"\boxed{14, 12}",
]
PROGRAMS = [
    "```python\ntotal = 3*4\nresult = total + 2\nprint(result)\n```",
    "```\ntotal = 3*4\nanswer = total + 2\n```",
    "```python\nresult = 0\nfor n in (12, 2):\n    result += n\n```",
    "plan: total = 3*4\nanswer = (total + 2) // 1",
]


@pytest.mark.parametrize("box", BOXES)
def test_who_boxes_a_right_value_in_words_answers_for_the_box(box: str) -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    play.act("coder_0", code("print(3*4 + 2)"), ran("14"))
    play.act("coder_0", "result: 14")
    answer = play.act("verifier_0", box)
    assert (answer.score, answer.blame) == (1, "verifier_0")
    assert culprit(play.actions) == "verifier_0"


@pytest.mark.parametrize("plan", PROGRAMS)
def test_a_name_that_a_program_assigns_to_is_no_stated_answer(plan: str) -> None:
    rows = summed(plan, "14")[1]
    assert rows[0].score != 1
    assert "stated answer" not in rows[0].reasoning


def test_a_report_beside_its_program_counts_if_the_program_printed_it() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    play.act("coder_0", code("print(3*4 + 2)") + "\n\nresult: 14", ran("14"))
    assert play.act("coder_0", "done").score == 10


def test_a_report_beside_its_program_that_it_did_not_print_is_no_report() -> None:
    play = Play("mathchat", SUM)
    play.act("solver_0", "plan: 3*4 + 2")
    play.act("coder_0", code("print(3*4)") + "\n\nresult: 14", ran("12"))
    assert play.act("coder_0", "done").score == 0
