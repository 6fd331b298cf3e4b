"""Episodes for training: how many, on which schedule, and how actions are sampled."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mappa_rl.config.base import Count, Fraction, NotNegative, Positive, Section


class AgentSampling(Section):
    """Sampling of one agent; keys that are left out keep the team's values."""

    temperature: NotNegative | None = None
    max_new_tokens: Count | None = None


class Rollout(Section):
    """Episodes for training: how many, on which schedule, and how actions are sampled."""

    episodes_per_step: Count = 128
    """Episodes per training step."""
    group_size: Count = 1
    """Episodes per drawn task; algorithms that compare episodes of one task need at least 2."""
    tasks: Annotated[int, Field(ge=0)] = 0
    """Train on a sample of so many of the training tasks; 0: on all."""
    tasks_seed: Annotated[int, Field(ge=0)] = 42
    """Seed of that sample: the same for runs with other seeds."""
    draw: Literal["replacement", "passes"] = "replacement"
    """``replacement``: each task is drawn from all; ``passes``: every task once before any comes again, in a
    new order for every pass (with ``stratify=off``)."""
    refill_rounds: Annotated[int, Field(ge=0)] = 0
    """Dynamic sampling, as in DAPO: how often another task may replace a group that teaches nothing (see
    ``algo.drop_zero_variance_groups``, which it needs) in a step; 0: never."""
    schedule: Literal["auto", "lockstep", "async"] = "auto"
    """``lockstep``: fixed groups of episodes step together, repeatable bit for bit (vllm: up to rounding);
    ``async``: every episode on its own; ``auto``: ``async`` if the engine, ``staleness``, ``max_episode_s``
    or ``retries`` need it."""
    stratify: Literal["off", "proportional", "equal"] = "off"
    """Task families in every step: drawn at random (``off``), in the proportions of the task set, or in equal
    numbers."""
    lockstep_groups: Count = 2
    """Groups that take turns: one generates while the others run code (only for ``lockstep``)."""
    workers: Count = 8
    """Threads that step environments (``async`` starts its own number)."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """Maximum training steps between sampling an action and training on it; 0: on policy."""
    update_between_turns: bool = True
    """With ``staleness``: the engines get new weights at once, also during episodes; false: only after the
    episodes under way have ended."""
    max_episode_s: NotNegative = 0.0
    """Maximum seconds of an episode; one that exceeds them is ended, and its actions are masked. 0: no
    limit."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Retries of an episode after an infrastructure failure (engine, sandbox or coach); if the last one fails
    too, the episode is masked."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    max_new_tokens: Count = 96
    """Maximum tokens of an action."""
    max_context: Count = 512
    """Maximum tokens of a context with its action; at most ``model.max_len``."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` and ``max_new_tokens`` (``agents.solver_0.temperature=0.8``). Agents
    that train the same policy need the same temperature."""
    max_masked_fraction: Fraction = 0.5
    """Maximum fraction of a step's actions without a valid reward; if it is exceeded, the run stops and can
    be resumed."""

    @property
    def need_async(self) -> list[str]:
        """The settings that only the async schedule supports, as overrides."""
        keys = ("staleness", "max_episode_s", "retries")
        return [f"rollout.{key}={getattr(self, key):g}" for key in keys if getattr(self, key)]

    @model_validator(mode="after")
    def _schedule(self) -> Self:
        if self.schedule == "lockstep" and self.need_async:
            raise ValueError(
                f"rollout.schedule=lockstep does not support {' '.join(self.need_async)}. Use "
                "rollout.schedule=async."
            )
        if self.draw == "passes" and self.stratify != "off":
            raise ValueError(
                f"rollout.draw=passes takes every task once, and rollout.stratify={self.stratify} draws by "
                "family. Use rollout.stratify=off, or rollout.draw=replacement."
            )
        return self

    def longest(self, agent: str) -> int:
        """Maximum tokens of this agent's actions."""
        own = self.agents.get(agent)
        return (own.max_new_tokens if own else None) or self.max_new_tokens
