"""The state machine of an episode: prompts each agent in turn, runs its code, and asks the coach."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappa_env.cards import Card
from mappa_env.coach import Coach, make_coach
from mappa_env.coach.base import checked
from mappa_env.data import load_tasks
from mappa_env.episode.earlier import Shown, earlier_segments
from mappa_env.episode.execution import ActionContext, Execution, Timer
from mappa_env.episode.limits import TaskLimits
from mappa_env.episode.options import EpisodeOptions
from mappa_env.episode.prompting import Prompter
from mappa_env.errors import CoachError, EpisodeError, OptionError
from mappa_env.grading import make_grader
from mappa_env.order import Turn
from mappa_env.sandbox import make_sandbox
from mappa_env.seeds import derived_seed
from mappa_env.shaping import make_shaping
from mappa_env.types import (
    ActionRecord,
    Attribution,
    Evidence,
    Message,
    Outcome,
    Task,
    Trajectory,
    Verdict,
)
from mappa_env.workspace.workspace import Workspace

if TYPE_CHECKING:
    from mappa_env.episode.corrections import Correcting


@dataclass(frozen=True, slots=True)
class _Asked:
    """The subject of a verdict. ``before``: a copy of the workspace in which to try a corrected action."""

    at: ActionContext
    evidence: Evidence
    before: Workspace | None
    verdict: Future[Verdict] | None = None

    def discard(self) -> None:
        if self.before is not None:
            self.before.remove()
        if self.verdict is not None:
            self.verdict.cancel()


class Episode:
    """The whole team working once on one task, one action at a time.

    ``reset`` starts it. Then ``agent`` says whose turn it is (None: over), ``messages()`` returns what that
    agent sees, and ``act(text)`` executes its action. Any text is a legal action. ``turn`` is the index of
    that action among the agent's. ``reset`` may be called at any time. Not thread-safe.
    """

    def __init__(self, card: Card, **options: Any) -> None:
        """``options``: see ``EpisodeOptions``. Raises OptionError, DataMissingError, CardError."""
        chosen = EpisodeOptions(**options)
        self.card = card
        self.tasks = load_tasks(
            card.loader, chosen.tasks, {**card.loader_options, **(chosen.task_options or {})}
        )
        self.settings = chosen.settings
        self.agent: str | None = None
        self.turn = 0
        self.outcome: Outcome | None = None
        self._prompter = Prompter(card, chosen.prompts)
        self._feedback = chosen.coach_feedback == "agents"
        self._deferred = chosen.judging == "deferred"
        self._pending: dict[int, _Asked] = {}
        self._shaping = make_shaping(chosen.shaping)
        if self._shaping.traces and not card.order.is_chain:
            raise OptionError(
                f"shaping={chosen.shaping!r} traces failures through teams whose agents act once each; "
                f"the card {card.id} has an order of its own."
            )
        self._coach = make_coach(chosen.coach, card)
        self._sandbox = make_sandbox(chosen.sandbox)
        self._execution = Execution(
            card,
            self._sandbox,
            TaskLimits(card.limits, chosen.checked_limits()),
            make_grader(card.grader, card.grader_options),
            probed=self._coach.name != "off",
        )
        self._correcting: Correcting | None = None
        if self._coach.corrects:
            from mappa_env.episode.corrections import Correcting  # lazy: imports the rubric

            self._correcting = Correcting(card, self._execution, labels=self._coach.labels)
        self._task: Task | None = None
        self._workspace: Workspace | None = None
        self._actions: list[ActionRecord] = []
        self._evidence: list[Evidence] = []
        self._attribution: Attribution | None = None
        self._messages: list[Message] = []
        self._earlier: list[Shown] = []
        self._next: Turn | None = None
        self._seed = 0
        self._limits = card.limits

    @property
    def timer(self) -> Timer:
        """``timer("sandbox" | "coach")`` is the context manager around that work; set it to measure."""
        return self._execution.timer

    @timer.setter
    def timer(self, timer: Timer) -> None:
        self._execution.timer = timer

    @property
    def over(self) -> bool:
        """True after the closing action, and before the first ``reset``."""
        return self.agent is None

    @property
    def task(self) -> Task:
        """The task of the episode. Raises EpisodeError before the first ``reset``."""
        if self._task is None:
            raise EpisodeError("the episode has no task yet: call reset() first.")
        return self._task

    @property
    def actions(self) -> tuple[ActionRecord, ...]:
        """The actions so far, in order."""
        return tuple(self._actions)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence that the coach got about each action; its ``history`` is as of then."""
        return tuple(self._evidence)

    @property
    def coach(self) -> Coach:
        """The coach, for further questions."""
        return self._coach

    @property
    def trajectory(self) -> Trajectory:
        """The record of the episode so far; complete once ``over``."""
        return Trajectory(
            self.card.id,
            self.task,
            self._seed,
            tuple(self._actions),
            self.outcome,
            self.settings,
            self._attribution,
        )

    @property
    def answer(self) -> str | None:
        """The final answer once ``over``; None before, and if the environment has no discrete answers."""
        return self._execution.answer(self._actions) if self.over else None

    @property
    def rewards(self) -> list[tuple[float, bool]]:
        """(reward in 0-10, valid) of every action, in order. Raises EpisodeError while the episode runs."""
        if self.outcome is None:
            raise EpisodeError("final rewards exist only when the episode is over.")
        return [(action.reward, action.reward_valid) for action in self._actions]

    @property
    def immediate(self) -> bool:
        """Whether rewards are final right after the action; otherwise they are pending until the end."""
        return self._shaping.immediate and not self._deferred

    def reset(self, *, seed: int, task_id: str | None = None) -> None:
        """Start over on ``task_id``, or on a task drawn with ``seed``.

        Raises UnknownTaskError, and OptionError or SandboxError if a limit makes the task impossible.
        """
        if task_id is None:
            ids = self.tasks.ids
            task_id = ids[_draw(seed, len(ids))]
        task = self.tasks.get(task_id)
        limits = self.card.limits
        if any(spec.tools for spec in self.card.team):
            limits = self._execution.limits.of(
                task
            )  # an impossible task is refused here, not charged to the team
        self._discard()
        self._task, self._limits, self._seed = task, limits, int(seed)
        self._actions, self._evidence, self.outcome, self._attribution = [], [], None, None
        self._advance()

    def messages(self) -> list[Message]:
        """What the acting agent sees, as new dicts. Each of its turns extends the messages of the last."""
        return [dict(message) for message in self._messages]

    def prompt(self) -> str:
        """``messages()`` as one text."""
        if len(self._messages) == 1:
            return self._messages[0]["content"]
        return "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in self._messages)

    def act(self, text: str) -> ActionRecord:
        """Execute the acting agent's action and pass the turn on. Raises EpisodeError if the episode is over.

        With ``judging="deferred"`` the verdict may be pending; the closing action waits until all are in.
        """
        turn = self._next
        if turn is None:
            raise EpisodeError("the episode is over (or not started): call reset() first.")
        if self._deferred:
            self._coach.wait()
        at = ActionContext(
            self.task,
            turn.agent,
            turn.number,
            turn.left,
            tuple(self._messages),
            self.prompt(),
            tuple(self._actions),
            self._seed,
        )
        before = None
        if self._correcting is not None and self._workspace is not None:
            before = self._workspace.copy()
        draft = self._execution.run(at, text, self._open_workspace)
        self.outcome = self._execution.outcome(at, draft, self._workspace)
        evidence = self._execution.evidence(at, draft, self._workspace, self.outcome)
        self._evidence.append(evidence)
        if self._deferred:
            draft = dataclasses.replace(draft, probe=evidence.probe)
            self._pending[draft.step] = _Asked(at, evidence, before, self._coach.judge_later(evidence))
        else:
            draft = self._judged(draft, _Asked(at, evidence, before), lambda: self._ask(evidence))
        self._actions.append(draft)
        if self.immediate:
            self._set_rewards(draft.step)
        if self.outcome is not None:
            with self.timer("coach"):
                self._settle()
        self._advance()
        return self._actions[-1]

    def close(self) -> None:
        """Remove the workspace and close sandbox and coach. May be called twice."""
        self._discard()
        self._sandbox.close()
        self._coach.close()
        self.agent = self._next = None

    # -- one action, step by step -------------------------------------------------------------------------

    def _judged(self, draft: ActionRecord, asked: _Asked, judge: Callable[[], Verdict]) -> ActionRecord:
        correction = None
        try:
            verdict = checked(judge(), self._coach)
            if self._correcting is not None:
                correction = self._correcting.verify(asked.at, asked.evidence, verdict, asked.before)
        except CoachError as error:  # an unreachable coach is a missing score, never a number
            verdict = Verdict("error", None, str(error), coach=self._coach.name)
        finally:
            asked.discard()
        probe = asked.evidence.probe
        return dataclasses.replace(draft, probe=probe, verdict=verdict, correction=correction)

    def _ask(self, evidence: Evidence) -> Verdict:
        with self.timer("coach"):
            return self._coach.judge(evidence)

    def _settle(self) -> None:
        """Wait for all verdicts of the episode, and set the pending rewards."""
        for step, asked in self._pending.items():
            assert asked.verdict is not None
            self._actions[step] = self._judged(self._actions[step], asked, asked.verdict.result)
        self._pending = {}
        if self._shaping.traces:
            from mappa_env.coach.blame.attribution import attribute

            self._attribution = attribute(self.trajectory, self.card.team, self._coach)
        if not self.immediate:
            self._set_rewards(0)

    def _set_rewards(self, first: int) -> None:
        """Set the final rewards of the actions from step ``first`` on."""
        rewards = self._shaping.rewards(self.trajectory)
        if len(rewards) != len(self._actions):
            raise OptionError(
                f"the shaping {self._shaping.name!r} returned {len(rewards)} rewards for "
                f"{len(self._actions)} actions; it must return one per action."
            )
        for step in range(first, len(rewards)):
            reward, valid = rewards[step]
            self._actions[step] = dataclasses.replace(self._actions[step], reward=reward, reward_valid=valid)

    # -- turns and the workspace --------------------------------------------------------------------------

    def _advance(self) -> None:
        """Pass the turn on. An agent that has acted before sees what is new below what it knows."""
        self._next = turn = self.card.order.next(self._actions)
        if turn is None:
            self.agent, self.turn, self._messages = None, 0, []
            return
        self.agent, self.turn = turn.agent.name, turn.number
        last = next((a for a in reversed(self._actions) if a.agent == self.agent), None)
        if last is None:
            self._earlier = self._fresh()
            self._messages = [self._prompter.render(turn.agent.role, self._context(turn))]
            return
        if last.last_turn:
            self._earlier = self._fresh()
            new = self._prompter.render("again", self._context(turn))
        else:
            assert last.tool is not None  # a segment continues only after a tool call
            feedback = last.verdict.reasoning if self._feedback else ""
            result = {"tool": last.tool, "feedback": feedback}
            new = self._prompter.render("tool", self._context(turn) | result)
        said = {"role": "assistant", "content": last.action}
        self._messages = [*(dict(message) for message in last.messages), said, new]

    def _fresh(self) -> list[Shown]:
        fresh = self.card.order.fresh(self._actions)
        return earlier_segments(self.card.team, fresh, self._feedback)

    def _context(self, turn: Turn) -> dict[str, Any]:
        spec = turn.agent
        names = set(self._workspace.present if self._workspace else self.task.files)
        return {
            "task": self.task,
            "agent": spec,
            "turns_left": turn.left,
            "returns": turn.returns,
            "files": sorted(names),
            "limits": self._limits,
            "missing": [name for name in spec.reads if name not in names],
            "earlier": self._earlier,
        }

    def _open_workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = self._execution.open_workspace(self.task)
        return self._workspace

    def _discard(self) -> None:
        for asked in self._pending.values():
            asked.discard()
        self._pending = {}
        if self._workspace is not None:
            self._workspace.remove()
            self._workspace = None


def _draw(seed: int, count: int) -> int:
    """An index below ``count`` that depends only on ``seed`` (a generator would be as slow as a prompt)."""
    return derived_seed(seed, "task", bits=64) % count
