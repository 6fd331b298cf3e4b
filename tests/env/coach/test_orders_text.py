"""Verdicts and blame in debates, of judges, reviewers and managers, and of one who works alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit, culprit_step
from mappa_env.types import AgentSpec, Team, Verdict
from order_play import OrderPlay, card_of, say
from rubric_play import code, ran

PRO, CON, JUDGE, BOSS = (AgentSpec(f"{role}_0", role) for role in ("pro", "con", "judge", "boss"))
CODER = AgentSpec("coder_0", "Coder", 2, ("python",))
ROUND = {"parallel": ["pro_0", "con_0"]}
SOLVE = {role: ["math_solution"] for role in ("pro", "con", "judge", "coder")}
RIGHT, WRONG, OTHER = r"\boxed{14}", r"\boxed{15}", r"\boxed{16}"


def debate(folder: Path, times: int = 2, **options: Any) -> OrderPlay:
    rows = [{"repeat": [ROUND], "times": times}, "judge_0"]
    return OrderPlay(card_of(folder, Team((PRO, CON, JUDGE)), rows, SOLVE), **options)


GOOD = (10, None)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([RIGHT, WRONG, RIGHT], [GOOD, (1, "con_0"), GOOD]),
        ([WRONG, WRONG, WRONG], [(1, "pro_0"), (1, "con_0"), (8, "pro_0")]),
        ([WRONG, OTHER, OTHER], [(1, "pro_0"), (1, "con_0"), (6, "con_0")]),
        ([WRONG, OTHER, RIGHT], [(1, "pro_0"), (1, "con_0"), GOOD]),
        ([RIGHT, WRONG, WRONG], [GOOD, (1, "con_0"), (1, "judge_0")]),  # the right one was there
        ([WRONG, WRONG, OTHER], [(1, "pro_0"), (1, "con_0"), (1, "judge_0")]),
        (["answer: 14", "", "The answer is 14."], [GOOD, (0, "con_0"), (0, "judge_0")]),  # needs a box
    ],
)
def test_debaters_answer_for_themselves_and_a_judge_for_its_choice(
    folder: Path, said: list[str], found: list[tuple[float, str | None]]
) -> None:
    assert say(debate(folder, times=1), *said) == found


def test_who_has_answered_before_is_no_victim_of_others(folder: Path) -> None:
    found = say(debate(folder), WRONG, OTHER, OTHER, OTHER, OTHER)
    assert found[2:] == [(1, "pro_0"), (1, "con_0"), (8, "con_0")]


def test_without_the_truth_an_answer_only_has_to_be_there(folder: Path) -> None:
    found = say(debate(folder, times=1, truth=False), WRONG, "I do not know.", OTHER)
    assert found == [GOOD, (0, "con_0"), GOOD]


def test_one_agent_that_computes_and_answers(folder: Path) -> None:
    alone = card_of(folder, Team((CODER,)), None, SOLVE)
    play = OrderPlay(alone)
    play.act(code("print(14)"), ran("14"))
    play.act(WRONG)
    assert [action.verdict.score for action in play.actions] == [10, 1]
    assert attribute(play.trajectory, alone).culprit == 1
    play = OrderPlay(alone, truth=False)
    play.act(code("print(14)"), ran("14"))
    assert play.act(WRONG).verdict.score == 1, "it is not what its own program printed"
    play = OrderPlay(alone)
    assert play.act(code("print(15)"), ran("15")).verdict.score == 1
    assert play.act(code("1/0"), ran("", "error")).verdict.score == 1, "no turn is left to answer"
    assert OrderPlay(alone).act("I would say 15.").verdict.score == 0


def test_blame_goes_to_those_who_brought_the_wrong_answer_up(folder: Path) -> None:
    play = debate(folder)
    say(play, RIGHT, WRONG, WRONG, WRONG, WRONG)
    found = attribute(play.trajectory, play.card)
    assert found.fractions == (0, 1, 0, 0, 0)
    assert found.suspects == (0, 1, 2, 3, 4)
    assert [(link.action, link.reason) for link in found.walk] == [
        (4, "boxed the stated answer '15'"),
        (1, "brought up the answer '15'"),
    ]
    play = debate(folder, times=1)
    say(play, WRONG, WRONG, WRONG)
    assert attribute(play.trajectory, play.card).fractions == (0.5, 0.5, 0), "neither saw the other"
    play = debate(folder, times=1)
    say(play, RIGHT, RIGHT, WRONG)
    assert attribute(play.trajectory, play.card).fractions == (0, 0, 1)
    play = debate(folder, times=1)
    say(play, RIGHT, RIGHT, "no box")
    assert attribute(play.trajectory, play.card).fractions == (0, 0, 1)


def test_a_success_is_everyones_whose_words_it_could_rest_on(folder: Path) -> None:
    rows = ["pro_0", {"parallel": ["con_0", "judge_0"]}]
    card = card_of(folder, Team((PRO, CON, JUDGE)), rows, SOLVE)
    play = OrderPlay(card)
    say(play, WRONG, WRONG, RIGHT)
    assert attribute(play.trajectory, card).fractions == (0.5, 0, 0.5), "the judge did not see con_0"


def refinement(folder: Path) -> OrderPlay:
    until = {"agent": "judge_0", "says": "decision: accept"}
    rows = [{"repeat": ["pro_0", "judge_0"], "times": 3, "until": until}]
    checks = SOLVE | {"judge": ["math_review"]}
    return OrderPlay(card_of(folder, Team((PRO, JUDGE)), rows, checks, "pro_0"))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([RIGHT, "Fine.\ndecision: accept"], [GOOD, GOOD]),
        ([WRONG, "decision: accept"], [(1, "pro_0"), (1, "judge_0")]),
        ([WRONG, "decision: redo", RIGHT, "decision: accept"], [(1, "pro_0"), GOOD, GOOD, GOOD]),
        ([RIGHT, "decision: redo"], [GOOD, (1, "judge_0")]),
        ([RIGHT, "It looks fine."], [GOOD, (0, "judge_0")]),
        (["hm", "decision: accept"], [(0, "pro_0"), (1, "judge_0")]),
        (["hm", "decision: revise"], [(0, "pro_0"), GOOD]),
        (["answer: 14", "decision: accept"], [(0, "pro_0"), (1, "judge_0")]),  # the grader wants a box
    ],
)
def test_a_reviewer_is_judged_by_its_decision(
    folder: Path, said: list[str], found: list[tuple[float, str | None]]
) -> None:
    assert say(refinement(folder), *said) == found


def test_the_graded_answer_is_traced_and_not_the_last_word(folder: Path) -> None:
    play = refinement(folder)
    say(play, OTHER, "decision: redo", WRONG, "decision: accept")
    found = attribute(play.trajectory, play.card)
    assert found.fractions == (0, 0, 1, 0)
    assert found.suspects == (0, 1, 2, 3), "the reviewer let it pass"
    play = refinement(folder)
    say(play, WRONG, "decision: redo", WRONG, "decision: accept")
    assert attribute(play.trajectory, play.card).fractions == (1, 0, 0, 0), "there it came up"


def managed(folder: Path, answerer: str = "") -> OrderPlay:
    rows = [{"choose": "boss_0", "among": ["coder_0", "pro_0"], "times": 3}]
    checks = SOLVE | {"boss": ["handover"], "coder": ["math_code"]}
    return OrderPlay(card_of(folder, Team((BOSS, CODER, PRO)), rows, checks, answerer))


def test_a_manager_calls_those_who_can_and_ends_when_the_work_is_there(folder: Path) -> None:
    play = managed(folder, "coder_0")
    assert play.act("hello").verdict.score == 0
    assert play.act("next: coder_0").verdict.score == 10
    play.act(code("print(14)"), ran("14"))
    play.act(RIGHT)
    late = play.act("next: pro_0").verdict
    assert (late.score, late.blame) == (5, "boss_0"), "a right answer was there"
    play = managed(folder, "coder_0")
    say(play, "next: coder_0")
    play.act(code("print(15)"), ran("15"))
    play.act(WRONG)
    assert play.act("next: pro_0").verdict.score == 10, "it was wrong"
    say(play, WRONG)
    end = play.act("next: done").verdict
    assert (end.score, end.blame) == (8, "coder_0")
    found = attribute(play.trajectory, play.card)
    assert found.failed
    assert play.actions[found.culprit or 0].agent == "coder_0" or found.culprit is None


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (["next: done"], 1),
        ([rf"{RIGHT}" + "\nnext: done"], 1),  # it answers instead of handing over
        (["next: pro_0", "I give up.", "next: done"], 1),
        (["next: pro_0", RIGHT, "next: done"], 10),
        (["next: boss_0"], 0),
    ],
)
def test_a_manager_that_ends_too_early(folder: Path, said: list[str], score: float) -> None:
    assert say(managed(folder, "pro_0"), *said)[-1][0] == score


def test_a_manager_that_never_calls_anyone_is_the_cause(folder: Path) -> None:
    play = managed(folder)
    say(play, "next: done")
    assert attribute(play.trajectory, play.card).culprit == 0


def test_a_manager_that_answers_itself_answers_for_it(folder: Path) -> None:
    rows = [{"choose": "boss_0", "among": ["pro_0"], "times": 3}]
    card = card_of(folder, Team((BOSS, PRO)), rows, SOLVE | {"boss": ["math_solution"]})
    play = OrderPlay(card)
    say(play, "next: pro_0", RIGHT)
    assert play.actions[0].verdict.status == "abstain", "to hand over is no answer"
    assert play.act(WRONG + "\nnext: done").verdict.score == 1


def test_a_coder_that_returns_may_report_what_it_computed(folder: Path) -> None:
    card = card_of(
        folder, Team((PRO, CODER)), ["pro_0", "coder_0", "pro_0", "coder_0"], SOLVE | {"coder": ["math_code"]}
    )
    play = OrderPlay(card)
    say(play, "plan: 3*4")
    play.act(code("print(12)"), ran("12"))
    play.act("result: 12")
    say(play, "plan: 3*4+2")
    assert play.act(code("print(14)"), ran("14")).verdict.score == 10
    play = OrderPlay(card)
    say(play, "plan: 3*4+2")
    play.act(code("print(14)"), ran("14"))
    say(play, "result: 14", "plan: 3*4+2", "result: 14")
    assert play.actions[-1].verdict.score == 10, "nothing had to run again"
    play = OrderPlay(card)
    say(play, "plan: 3*4+2")
    play.act(code("print(14)"), ran("14"))
    say(play, "result: 14", "plan: 3*4")
    wrong = play.act(code("print(12)"), ran("12")).verdict
    assert (wrong.score, wrong.blame) == (8, "pro_0"), "it carried out the plan as it is now"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("card")


def test_verdicts_of_several_segments_count_as_the_last_one_ends(folder: Path) -> None:
    play = debate(folder)
    say(play, WRONG, RIGHT, RIGHT, RIGHT, WRONG)
    assert culprit(play.actions) == "judge_0", "pro_0 has put its own right"
    assert culprit_step(play.actions, play.card.team) == 4
    play = debate(folder)
    say(play, RIGHT, WRONG, WRONG, WRONG, WRONG)
    assert (culprit(play.actions), culprit_step(play.actions, play.card.team)) == ("pro_0", 2)


def test_a_worker_is_not_blamed_by_a_verdict_alone(folder: Path) -> None:
    play = debate(folder, times=1)
    say(play, RIGHT, RIGHT, WRONG)
    blamed = [dataclasses.replace(a, verdict=Verdict("ok", 1.0, blame="pro_0")) for a in play.actions]
    assert attribute(dataclasses.replace(play.trajectory, actions=tuple(blamed)), play.card).culprit == 2


def test_orders_of_fifty_rounds_are_judged_and_traced_in_no_time(folder: Path) -> None:
    team = Team((PRO, CON, JUDGE))
    rows = [{"repeat": [ROUND], "times": 50, "until": {"agree": ["pro_0", "con_0"]}}, "judge_0"]
    card = card_of(folder, team, rows, SOLVE)
    play = OrderPlay(card)
    while play.agent not in (None, "judge_0"):
        play.act(WRONG if play.agent == "pro_0" else OTHER)
    play.act(OTHER)
    found = attribute(play.trajectory, card)
    assert found.culprit == 1
    assert len(play.actions) == 101
