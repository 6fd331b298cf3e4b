"""How episodes are set up, played and evaluated."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mappa_env.sandbox import DEFAULT
from mappa_rl.sections.base import Count, Fraction, NotNegative, Positive, Section


class Env(Section):
    """The environment. ``options`` turns it into the keywords of ``gym.make``."""

    id: str = "mappa/MathChat-v0"
    """Environment id, as in ``gym.make(id)``."""
    tasks_train: str = "train"
    """Split of the card, or a path to task files, to train on."""
    tasks_eval: str = "eval"
    """Split of the card, or a path to task files, that is held out for evaluation."""
    task_options: dict[str, Any] = {}
    """Options of the card's task loader, for both splits (for instance ``levels: [1, 2]``)."""
    prompts: Literal["full", "compact"] = "compact"
    """Length of the prompts: ``full`` for real models, ``compact`` for small vocabularies."""
    coach: str | dict[str, Any] = "rubric"
    """Who scores actions: ``rubric``, ``off``, or another coach's name or mapping."""
    coach_feedback: Literal["off", "agents"] = "off"
    """``agents``: the agents see what the coach said of earlier actions."""
    judging: Literal["blocking", "deferred"] = "blocking"
    """``deferred``: verdicts are asked in the background while the team goes on; for slow coaches."""
    sandbox: str | dict[str, Any] = DEFAULT
    """Where the agents' code runs: a backend's name or mapping."""
    shaping: str | dict[str, Any] = "process"
    """What an action is paid: ``process`` (its own score), ``outcome``, ``mixed``, or a mapping."""

    def options(self, split: Literal["train", "eval"]) -> dict[str, Any]:
        """The keywords of ``gym.make`` for one of the two task sets."""
        keywords = self.model_dump(exclude={"id", "tasks_train", "tasks_eval"})
        return {**keywords, "tasks": self.tasks_train if split == "train" else self.tasks_eval}


class AgentSampling(Section):
    """What one agent has in place of the team's sampling; left out: as the team."""

    temperature: NotNegative | None = None
    max_new_tokens: Count | None = None


class Rollout(Section):
    """How episodes are played for training."""

    episodes_per_step: Count = 128
    """Episodes per training step."""
    samples_per_task: Count = 1
    """Episodes of each drawn task; algorithms that compare episodes of one task need 2 or more."""
    schedule: Literal["auto", "groups", "stream"] = "auto"
    """``groups``: fixed groups in step, repeatable bit for bit; ``stream``: every episode on its own;
    ``auto``: ``stream`` where ``staleness``, ``max_episode_s`` or ``retries`` need it."""
    stratify: Literal["off", "proportional", "equal"] = "off"
    """Tasks of every step by family (as their metrics say): as they come, in the task set's shares, or as
    many of each."""
    groups: Count = 2
    """Groups of episodes that take turns: one generates while the others run code (not in a stream)."""
    workers: Count = 8
    """Threads that step environments (a stream has as many as it needs)."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """Training steps that may lie between sampling an action and training on it; 0: on policy."""
    update_between_turns: bool = True
    """With ``staleness``: new weights at once, also within episodes; false: when those under way are over."""
    max_episode_s: NotNegative = 0.0
    """Seconds that an episode may take; later it is ended and its actions are masked. 0: any."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Further tries of an episode that engine, sandbox or coach spoiled; after the last it is masked."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    max_new_tokens: Count = 96
    """Longest action, in tokens."""
    max_context: Count = 512
    """Longest context with its action, in tokens; at most ``model.max_len``."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` and ``max_new_tokens`` (``agents.solver_0.temperature=0.8``); agents
    that train one policy need one temperature."""
    max_masked: Fraction = 0.5
    """Largest share of a step's actions without a valid reward; a run with more stops, and can be resumed."""

    @property
    def need_stream(self) -> list[str]:
        """The settings that only a stream can fulfil, as overrides."""
        keys = ("staleness", "max_episode_s", "retries")
        return [f"rollout.{key}={getattr(self, key):g}" for key in keys if getattr(self, key)]

    @model_validator(mode="after")
    def _schedule(self) -> Self:
        if self.schedule == "groups" and self.need_stream:
            raise ValueError(
                f"rollout.schedule=groups plays every episode of a step once and to its end, so it does not "
                f"go with {' '.join(self.need_stream)}. Use rollout.schedule=stream."
            )
        return self

    def longest(self, agent: str) -> int:
        """The bound of this agent's actions, in tokens."""
        own = self.agents.get(agent)
        return (own.max_new_tokens if own else None) or self.max_new_tokens


class Eval(Section):
    """Evaluation on the held-out tasks, before and after, with the same tasks and seeds."""

    episodes: Count = 400
    """Episodes per evaluation; the task set starts again when it runs out."""
    samples: Count = 1
    """Episodes per task, a divisor of ``episodes``; with several, pass@k and the majority's success are
    reported, and intervals are over tasks."""
    temperatures: Annotated[list[NotNegative], Field(min_length=1)] = [1.0]
    """Temperatures that are always evaluated; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the most likely tokens of this total probability; 1: from all."""
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    """Longest action in evaluations, in tokens; 0: as in training."""
    agents: dict[str, AgentSampling] = {}
    """Agent -> its own ``temperature`` (whatever ``temperatures`` says) and ``max_new_tokens``."""
    calibration_temperatures: list[NotNegative] = [0.2, 0.4, 0.6, 0.8]
    """Tried on the warm start, beside ``temperatures``, to find its own best one, which is evaluated too;
    empty: not."""
    calibration_episodes: Count = 200
    """Training tasks per calibration temperature."""
    every: Annotated[int, Field(ge=0)] = 0
    """Training steps between evaluations on the way; 0: none."""
    validation: Annotated[int, Field(ge=0)] = 0
    """Training tasks, the last ones, that training steps leave out; success on them scores every checkpoint,
    and the best one is kept; 0: none."""
