"""Tests and corrections of the coach's bias."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mappa_rl.config.base import Count, Section


class Bias(Section):
    """Tests and corrections of the coach's bias (docs/coach.md)."""

    test_every: Annotated[int, Field(ge=0)] = 10
    """Training steps between two bias tests, which compare the coach's scores by task family; 0: none."""
    window: Count = 2048
    """Newest episodes that a test uses, and newest scores per stratum that a correction uses."""
    correct: Literal["off", "mean", "mean_std"] = "off"
    """Bring all strata (task family, role, turn) to one ``mean``, or also to one standard deviation."""
    anchors: Annotated[int, Field(ge=0)] = 0
    """Episodes of the scripted faulty team whose actions the coach judges repeatedly, to detect drift. Every
    judgement of an action is a call."""
    anchors_every: Count = 10
    """Training steps between two judgements of the anchors."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.anchors:
            from mappa_env.coach.bias.drift import MIN_EPISODES

            if self.anchors < MIN_EPISODES:
                raise ValueError(
                    f"bias.anchors={self.anchors} is too few for an alarm: use 0, or at least {MIN_EPISODES}."
                )
        return self
