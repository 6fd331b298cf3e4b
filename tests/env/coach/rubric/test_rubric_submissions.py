"""The rubric on tables: submissions."""

from __future__ import annotations

import pytest

from mappa_env.types import Outcome
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
