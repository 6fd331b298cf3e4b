"""How the policies are evaluated."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mappa_rl.config.base import Count, NotNegative, Section
from mappa_rl.config.rollout import AgentSampling


class Eval(Section):
    """Evaluation before and after training, on the same held-out tasks with the same seeds."""

    episodes: Count = 400
    """Episodes per evaluation; after the last task of the set the tasks start over."""
    also: dict[str, Count] = {}
    """Further environments for the same team -> episodes on their eval split, evaluated whenever ``env.id``
    is, without the coach: ``also.mappa/AMC-v0=128``."""
    group_size: Count = 1
    """Episodes per task; must divide ``episodes``. Above 1, pass@k and majority success are reported, and
    intervals are over tasks."""
    temperatures: Annotated[list[NotNegative], Field(min_length=1)] = [1.0]
    """Temperatures to evaluate at; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the most likely tokens of this total probability; 1: from all tokens."""
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    """Maximum tokens of an action in evaluations; 0: as in training."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` (instead of ``temperatures``) and ``max_new_tokens``."""
    calibration_temperatures: list[NotNegative] = [0.2, 0.4, 0.6, 0.8]
    """Temperatures to try on the warm start, besides ``temperatures``; the best one is evaluated too. Empty:
    no calibration."""
    calibration_episodes: Count = 200
    """Training tasks per calibration temperature."""
    every: Annotated[int, Field(ge=0)] = 0
    """Training steps between evaluations during training; 0: none."""
    validation_tasks: Annotated[int, Field(ge=0)] = 0
    """Number of training tasks, the last ones, to hold out for validation. Their success rate scores every
    checkpoint, and the best checkpoint is kept. 0: none."""
