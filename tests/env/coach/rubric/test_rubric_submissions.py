"""The rubric on tables: submissions."""

from __future__ import annotations

import dataclasses

import pytest

from mappa_env.grading.submission import grade_submission
from mappa_env.types import Outcome
from rubric_play import TABLE, Play, code, ran
from rubric_tables import (
    graded,
    predictions,
    submit,
    team_up_to_analyst,
    with_model,
)


@pytest.mark.parametrize(
    ("provisional", "score"),
    [
        (graded(1.2), 10),
        (graded(0.5), 5.75),
        (graded(0.0), 1.5),
        (graded(0.0, constant=1.0), 1),
        (graded(0.0, "rows"), 1),
    ],
)
def test_the_ladder_of_submissions(provisional: Outcome, score: float) -> None:
    verdict = submit(team_up_to_analyst(with_model(predictions=predictions(1.0))), provisional)
    assert verdict.score == pytest.approx(score)
    assert verdict.blame == (None if score == 10 else "analyst_0")  # the model has skill 1


def test_the_standing_outlives_the_code_turn() -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(1.0)))
    first = submit(play, graded(1.0))
    assert play.act("analyst_0", "done", provisional=graded(1.0)).score == first.score == 10


def test_a_constant_model_excuses_who_used_it() -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(0.5), constant=True))
    used = submit(play, graded(0.0, constant=1.0))
    assert (used.score, used.blame) == (6, "modeler_0")
    other = team_up_to_analyst(with_model(predictions=predictions(0.5), constant=True))
    unused = submit(other, graded(0.0, constant=1.0), "print('all the same')")
    assert (unused.score, unused.blame) == (2, "analyst_0")


ANSWERS = [line.split(",") for line in TABLE.truth["answers_csv"].decode().splitlines() if line]
HEADER, ROWS = ANSWERS[0][:2], [row[:2] for row in ANSWERS[1:]]


def _csv(header: list[str], rows: list[list[str]]) -> bytes:
    return "".join(",".join(row) + "\n" for row in (header, *rows)).encode()


USELESS = {
    "a word": b"nothing\n",
    "bytes": bytes(range(128, 255)),
    "another header": _csv(["row", "prediction"], ROWS),
    "one column": _csv(HEADER[1:], [row[1:] for row in ROWS]),
    "other ids": _csv(HEADER, [[f"9{at}", row[1]] for at, row in enumerate(ROWS)]),
    "the sample": TABLE.files["sample_submission.csv"],
    "the sample, written again": TABLE.files["sample_submission.csv"].replace(b"\n", b"\r\n"),
}
EXCUSED = {
    "fewer rows": _csv(HEADER, ROWS[3:]),
    "labels of another kind": _csv(HEADER, [[row[0], "7"] for row in ROWS]),
}


def lose_the_test_table(play: Play) -> None:
    """As if the engineer had never written it."""
    del play.present["X_test.pkl"]
    play.actions[:] = [
        dataclasses.replace(
            each,
            tool=each.tool
            and dataclasses.replace(
                each.tool, files=tuple(f for f in each.tool.files if f.path != "X_test.pkl")
            ),
        )
        for each in play.actions
    ]


@pytest.mark.parametrize("content", [*USELESS.values(), *EXCUSED.values()], ids=[*USELESS, *EXCUSED])
@pytest.mark.parametrize("blocked", [True, False])
def test_what_is_unusable_whatever_its_inputs_are(content: bytes, blocked: bool) -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(1.0)))
    if blocked:
        lose_the_test_table(play)
    tool = ran("", files=["submission.csv"], opened=("X_test.pkl", "model.pkl", "test.csv"))
    found = play.act("analyst_0", code("pass"), tool, provisional=grade_submission(TABLE, content))
    if not blocked:
        assert (found.score, found.blame) == (1, "analyst_0")
    elif content in USELESS.values():
        assert (found.score, found.blame) == (2, "analyst_0")
    else:
        assert (found.score, found.blame) == (6, "engineer_0")


@pytest.mark.parametrize(
    ("opened", "score"),
    [
        (("test.csv", "train.csv"), 6),
        (("test.csv", "train.csv", "sample_submission.csv"), 2),
        (("test.csv", "sample_submission.csv"), 2),
        (("test.csv",), 2),
    ],
)
@pytest.mark.parametrize("sample", ["the sample", "the sample, written again"])
def test_the_majority_of_train_csv_is_no_copy_of_a_sample_that_says_the_same(
    opened: tuple[str, ...], score: float, sample: str
) -> None:
    play = team_up_to_analyst(with_model(predictions=predictions(1.0)))
    lose_the_test_table(play)
    tool = ran("", files=["submission.csv"], opened=opened)
    graded = grade_submission(TABLE, USELESS[sample])
    assert play.act("analyst_0", code("pass"), tool, provisional=graded).score == score
