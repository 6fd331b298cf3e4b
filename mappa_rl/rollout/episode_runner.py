"""One episode with the engines of its policies: request, generation, step, next request."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from mappa_env.seeds import derived_seed
from mappa_env.types import Message, Trajectory
from mappa_rl.engines.base import Generation, Request
from mappa_rl.environments.base import PlayedEnv
from mappa_rl.errors import ContextError, EngineError
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.sampling import Sampling
from mappa_rl.rollout.types import Job
from mappa_rl.telemetry.stopwatch import Stopwatch
from mappa_rl.types import Rollout, Turn


class EpisodeRunner:
    """One job on one environment: ``reset``, then ``request`` and ``step`` alternately, then ``finish``.

    Used from one thread at a time, except for ``cut``.
    """

    def __init__(
        self, job: Job, env: PlayedEnv, policies: Policies, sampling: Sampling, watch: Stopwatch
    ) -> None:
        self.env = env
        self._job, self._policies, self._sampling, self._watch = job, policies, sampling, watch
        self._turns: list[Turn] = []
        self._info: dict[str, Any] = {}
        self._seen: dict[str, list[Message]] = {}
        """Agent -> the messages of its newest turn."""
        self._context: list[int] = []

    @property
    def policy(self) -> str:
        """Name of the policy whose turn it is."""
        return self._policies.of(self._info["agent"])

    @property
    def begun(self) -> bool:
        """Whether ``reset`` has chosen a task and rendered the first prompt."""
        return bool(self._info)

    def reset(self) -> None:
        """Start the episode."""
        with self._watch.working("rest"):
            self._info = self.env.reset(self._job.seed, self._job.task_id)

    def request(self) -> Request | None:
        """What the acting agent's policy should continue; None if its prompt leaves no room: ``pass_turn``.

        Raises ContextError if that is the episode's first prompt, before which no agent has said anything.
        """
        self._update_context()
        policy, sampling = self._policies[self.policy], self._sampling.of(self._info["agent"])
        room = min(sampling.max_context, policy.engine.max_len) - len(self._context)
        if room < 1 and self._turns:
            return None
        if room < 1:
            raise ContextError(
                f"The prompt of {self._info['agent']} on task {self._info['task_id']!r} has "
                f"{len(self._context)} tokens, which leaves no room for an action within max_context="
                f"{sampling.max_context}. Raise rollout.max_context (and model.max_len)."
            )
        return Request(
            ids=self._context,
            seed=derived_seed(self._job.seed, len(self._turns)) if sampling.seeded else None,
            max_tokens=min(sampling.max_new_tokens, room),
            temperature=sampling.temperature,
            stop_ids=policy.chat.stop_ids,
            top_p=sampling.top_p,
            episode=str(self._job.seed),
        )

    def step(self, generation: Generation) -> bool:
        """Step the environment with the action and record the turn. Returns whether the episode is over.

        Rewards are recorded by ``finish``: shapings and deferred verdicts decide them at the end.
        """
        if generation.stopped == "abort":
            raise EngineError(f"The engine aborted the generation of {self._info['agent']}.")
        text = self._policies[self.policy].chat.decode(generation.ids)
        return self._step(text, generation.ids, generation.logprobs, generation.stopped, generation.version)

    def pass_turn(self) -> bool:
        """Step with an empty action, as evaluations of other models do where no prompt fits; see ``step``."""
        return self._step("", (), (), "no_room", 0)

    def _step(
        self,
        text: str,
        ids: Sequence[int],
        logprobs: Sequence[float],
        stopped: Literal["eos", "length", "no_room"],
        version: int,
    ) -> bool:
        agent, policy = self._info["agent"], self.policy
        with self._watch.working("rest"):
            stepped = self.env.step(text)
        record = stepped.record
        self._turns.append(
            Turn(
                agent=agent,
                policy=policy,
                step=record.step,
                turn=record.turn,
                context_ids=self._context,
                action_ids=list(ids),
                logprobs=list(logprobs),
                stopped=stopped,
                reward=0.0,
                valid=False,
                stratum=record.stratum,
                version=version,
            )
        )
        self._info = stepped.info
        return stepped.over

    def finish(self) -> tuple[Rollout, Trajectory]:
        """The finished episode, with the final rewards from the environment's closing ``info``."""
        trajectory = self.env.trajectory
        outcome = trajectory.outcome
        assert outcome is not None
        rollout = Rollout(
            turns=tuple(self._turns),
            task_id=trajectory.task.id,
            topic=trajectory.task.topic,
            seed=self._job.seed,
            success=outcome.success,
            score=outcome.score,
            metrics=dict(outcome.metrics),
            answer=self.env.answer,
        )
        return rollout.with_rewards(self._info["rewards"], self._info["rewards_valid"]), trajectory

    def cut(self, ended: Literal["timed_out", "failed"]) -> tuple[Rollout, Trajectory]:
        """The turns so far of an episode that will not continue, without rewards. Thread-safe."""
        turns = tuple(self._turns)
        trajectory = self.env.trajectory
        trajectory = dataclasses.replace(trajectory, actions=trajectory.actions[: len(turns)], outcome=None)
        rollout = Rollout(
            turns=turns,
            task_id=trajectory.task.id,
            topic=trajectory.task.topic,
            seed=self._job.seed,
            success=False,
            score=0.0,
            ended=ended,
        )
        return rollout, trajectory

    def _update_context(self) -> None:
        """Bring the context up to the messages; append only what is new to an agent that has acted before."""
        chat, agent = self._policies[self.policy].chat, self._info["agent"]
        messages = self._info["messages"]
        last = next((turn for turn in reversed(self._turns) if turn.agent == agent), None)
        context = None
        if last is not None:
            context = chat.extend(last.context_ids, last.action_ids, self._seen[agent], messages)
        self._context = chat.open(messages) if context is None else context
        self._seen[agent] = messages
