"""Supervised steps before reinforcement learning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mappa_rl.config.base import Count, Fraction, Positive, Section


class WarmStart(Section):
    """Supervised steps on episodes of a scripted team, before reinforcement learning."""

    path: str = ""
    """Folder of an earlier run's warm start (``<run>/warmstart``); empty: make a new one."""
    episodes: Count = 16000
    """Episodes of demonstrations; the tokenizer of a tiny model is trained on them too."""
    team: Literal["expert", "faulty"] = "faulty"
    """The scripted team to imitate."""
    steps: Annotated[int, Field(ge=0)] = 3000
    """Optimizer steps, at most; 0: no warm start, so the policies start as the model of ``model.kind``."""
    until: Fraction = 0.0
    """Success rate on training tasks that ends imitation before ``steps``; 0: take all of them."""
    check_every: Count = 10
    """Steps between two measurements of that rate."""
    check_episodes: Count = 60
    """Episodes of a measurement, at the lowest temperature of ``eval``."""
    batch_size: Count = 16
    """Demonstrated actions per step."""
    lr: Positive = 3e-3
    """Peak learning rate; decays linearly to 0."""
    warmup_steps: Annotated[int, Field(ge=0)] = 50
    """Steps of linear warmup."""
    prompt_weight: Fraction = 0.1
    """Weight of prompt tokens in the loss; action tokens have 1."""
    name_weight: Positive = 1.0
    """Weight of action tokens in names that the prompt has in single quotes, which must be copied."""
    renamed: Annotated[int, Field(ge=0)] = 0
    """Extra copies of each demonstration, with names from other training tasks in place of these."""
