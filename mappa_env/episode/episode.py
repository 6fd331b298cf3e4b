"""The state machine of an episode: prompts each agent in turn, runs its code, and asks the coach."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from mappa_env.cards import Card
from mappa_env.coach import Coach, make_coach
from mappa_env.coach.base import checked
from mappa_env.data import load_tasks
from mappa_env.data.stamps import Stamps, stamps_of
from mappa_env.episode.earlier import Shown, earlier_segments
from mappa_env.episode.execution import ActionContext, Execution, Timer
from mappa_env.episode.held import Held
from mappa_env.episode.limits import TaskLimits
from mappa_env.episode.options import EpisodeOptions
from mappa_env.episode.prompting import Prompter
from mappa_env.errors import CoachError, DataError, DataWarning, EpisodeError, OptionError
from mappa_env.grading import make_grader
from mappa_env.order import Turn
from mappa_env.sandbox import make_sandbox
from mappa_env.seeds import derived_seed
from mappa_env.shaping import make_shaping
from mappa_env.tools.toolbox import Toolbox
from mappa_env.types import (
    VOID,
    ActionRecord,
    Attribution,
    Evidence,
    Message,
    Outcome,
    Task,
    Timing,
    Trajectory,
    Verdict,
)
from mappa_env.types.revised import revised
from mappa_env.workspace.workspace import Workspace

if TYPE_CHECKING:
    from mappa_env.episode.corrections import Correcting


class _Asked(NamedTuple):
    """The subject of a verdict. ``before``: a copy of the workspace in which to try a corrected action."""

    at: ActionContext
    evidence: Evidence
    before: Workspace | None
    verdict: Future[Verdict] | None = None

    def fork(self) -> _Asked:
        before = None if self.before is None else self.before.fork()
        return _Asked(self.at, self.evidence, before, self.verdict)

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
        tools = Toolbox(card.tools, card.team)
        self._held: Held | None = Held(make_sandbox(chosen.sandbox), make_coach(chosen.coach, card), tools)
        self._coach, self._tools = self._held.coach, tools
        self._task_limits = TaskLimits(card.limits, chosen.checked_limits())
        self._execution = Execution(
            card,
            self._held.sandbox,
            tools,
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
        self._timings: list[Timing] = []
        self._asked_at = 0.0
        self._evidence: list[Evidence] = []
        self._attribution: Attribution | None = None
        self._messages: list[Message] = []
        self._earlier: list[Shown] = []
        self._next: Turn | None = None
        self._beside: dict[str, list[Message]] = {}
        self._seed = 0
        self._limits = card.limits
        self._stamps: Stamps = ()

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
    def last(self) -> ActionRecord | None:
        """The newest action; None before the first."""
        return self._actions[-1] if self._actions else None

    @property
    def seen(self) -> tuple[ActionRecord, ...]:
        """Those of ``actions`` that the acting agent can know of: not what others do in parallel with it."""
        return self.card.order.seen(self._actions)

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
            tuple(self._timings),
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

        A task whose data have changed, or cannot be read any more, is void: a DataWarning says why, the first
        action ends the episode with the outcome ``unavailable``, and no reward is valid. Raises
        UnknownTaskError, OptionError or SandboxError if a limit makes the task impossible, and ToolError if a
        tool's server cannot be reached or lacks what the card names.
        """
        if task_id is None:
            ids = self.tasks.ids
            task_id = ids[_draw(seed, len(ids))]
        limits = self.card.limits
        try:
            task = self.tasks.get(task_id)
            if any("python" in spec.tools for spec in self.card.team):
                limits = self._task_limits.of(task)  # an impossible one is refused, not charged to the team
            files = stamps_of(task.paths)
        except (DataError, OSError) as error:
            task, files = Task(task_id, f"The task {task_id!r} cannot be played: {error}", VOID), ()
            warnings.warn(task.prompt, DataWarning, stacklevel=2)
        self._tools.open()
        self._discard()
        self._task, self._limits, self._seed, self._stamps = task, limits, int(seed), files
        self._actions, self._evidence, self.outcome, self._attribution = [], [], None, None
        self._timings = []
        self._advance()
        self._asked_at = time.perf_counter()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns that can be taken now, in the order in which ``act`` takes them: see ``Order.turns``."""
        return () if self._next is None else self.card.order.turns(self._actions)

    def messages(self, agent: str | None = None) -> list[Message]:
        """What ``agent`` (default: the acting one) sees, as new dicts.

        Each of its turns extends the messages of the last. Raises EpisodeError for an agent that has no turn
        among ``turns``.
        """
        return [dict(message) for message in self._messages_of(agent)]

    def prompt(self, agent: str | None = None) -> str:
        """``messages(agent)`` as one text."""
        messages = self._messages_of(agent)
        if len(messages) == 1:
            return messages[0]["content"]
        return "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in messages)

    def act(self, text: str) -> ActionRecord:
        """Execute the acting agent's action and pass the turn on. Raises EpisodeError if the episode is over.

        With ``judging="deferred"`` the verdict may be pending; the closing action waits until all are in.
        """
        turn = self._next
        if turn is None:
            raise EpisodeError("the episode is over (or not started): call reset() first.")
        came, began = time.time(), time.perf_counter()
        task = self.task
        if self._deferred and not task.void:
            self._coach.wait()
        at = ActionContext(
            task,
            turn.agent,
            turn.number,
            turn.left,
            tuple(self._messages),
            self.prompt(),
            tuple(self._actions),
            self._seed,
            self._limits,
            self._stamps,
        )
        before = None
        if self._correcting is not None and self._workspace is not None:
            before = self._workspace.copy()
        draft = self._execution.run(at, text, self._open_workspace)
        self.outcome = self._execution.outcome(at, draft, self._workspace)
        evidence = self._execution.evidence(at, draft, self._workspace, self.outcome)
        self._evidence.append(evidence)
        if task.void:
            nothing = Verdict("abstain", None, "the task is void: nothing to judge", coach=self._coach.name)
            draft = revised(draft, verdict=nothing)
        elif self._deferred:
            draft = revised(draft, probe=evidence.probe)
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
        ended = time.perf_counter()
        self._timings.append(Timing(came, began - self._asked_at, ended - began))
        self._asked_at = ended
        return self._actions[-1]

    def replay(self, trajectory: Trajectory, *, steps: int | None = None) -> None:
        """Start over on a recorded episode, and repeat its first ``steps`` actions; None: all of them.

        With the options of the recording (``trajectory.settings``) the result is the recorded one, except for
        measured times, what the agents' own code leaves to chance and what servers answer: tools are asked
        again. Raises EpisodeError for another card's episode, or where another agent than the recorded one
        acts; UnknownTaskError; DataError for a task that is void now.
        """
        if trajectory.env_id != self.card.id:
            raise EpisodeError(f"an episode of {trajectory.env_id} cannot be replayed on {self.card.id}.")
        self.reset(seed=trajectory.seed, task_id=trajectory.task.id)
        if self.task.void:
            raise DataError(self.task.prompt)
        for action in trajectory.actions[:steps]:
            if self.agent != action.agent:
                raise EpisodeError(
                    f"step {action.step} of the recorded episode is {action.agent}'s, but now "
                    f"{self.agent or 'nobody'} acts: its card had another team or order."
                )
            self.act(action.action)

    def fork(self) -> Episode:
        """The same episode once more: from here each takes its own course, to branch or to look ahead.

        The fork has its own copy of the workspace (see ``Workspace.fork``) and the same seeds, so the same
        actions run with the same random numbers. Sandbox, coach and tools are shared, and closed with the
        last of the episodes; use them from one thread. Waits for pending verdicts. Raises OSError if the
        workspace cannot be copied, EpisodeError once closed.
        """
        if self._held is None:
            raise EpisodeError("a closed episode has no fork: fork it before close().")
        wait([asked.verdict for asked in self._pending.values() if asked.verdict is not None])
        twin = copy.copy(self)
        twin._workspace = None if self._workspace is None else self._workspace.fork()
        twin._pending = {step: asked.fork() for step, asked in self._pending.items()}
        twin._actions, twin._evidence = list(self._actions), list(self._evidence)
        twin._messages, twin._earlier, twin._beside = self.messages(), list(self._earlier), {}
        twin._timings = list(self._timings)
        twin._execution, twin._held = self._execution.fork(), self._held.share()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Episode:
        return self.fork()

    def close(self) -> None:
        """Remove the workspace; close what no fork uses: sandbox, coach, tools. May be called twice."""
        self._discard()
        if self._held is not None:
            self._held.release()
        self._held = self.agent = self._next = None

    # -- one action, step by step -------------------------------------------------------------------------

    def _judged(self, draft: ActionRecord, asked: _Asked, judge: Callable[[], Verdict]) -> ActionRecord:
        correction = None
        try:
            verdict = checked(judge(), self._coach)
            if self._correcting is not None:
                correction = self._correcting.verify(asked.at, asked.evidence, verdict, asked.before)
        except (CoachError, DataError) as error:  # an unreachable coach is a missing score, never a number
            verdict = Verdict("error", None, str(error), coach=self._coach.name)
        finally:
            asked.discard()
        probe = asked.evidence.probe
        return revised(draft, probe=probe, verdict=verdict, correction=correction)

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

            self._attribution = attribute(self.trajectory, self.card, self._coach)
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
            action = self._actions[step]
            if (action.reward, action.reward_valid) != (reward, valid):
                self._actions[step] = revised(action, reward=reward, reward_valid=valid)

    # -- turns and the workspace --------------------------------------------------------------------------

    def _advance(self) -> None:
        """Pass the turn on. An agent that has acted before sees what is new below what it knows."""
        over = self.outcome is not None
        self._next, self._beside = None if over else self.card.order.next(self._actions), {}
        turn = self._next
        if turn is None:
            self.agent, self.turn, self._messages = None, 0, []
            return
        self.agent, self.turn = turn.agent.name, turn.number
        last = self._last_of(self.agent)
        if last is None or last.last_turn:
            self._earlier = self._fresh(self.agent)
            self._messages = self._begun(turn, last, self._earlier)
            return
        feedback = last.verdict.reasoning if self._feedback else ""
        result = {"tool": last.tool, "calls": last.calls, "feedback": feedback}
        new = self._prompter.render("tool", self._context(turn, self._earlier) | result)
        self._messages = _extended(last, new)

    def _messages_of(self, agent: str | None) -> list[Message]:
        """The messages of the acting agent, or of one that acts in parallel with it."""
        if agent is None or agent == self.agent:
            return self._messages
        if agent not in self._beside:
            turn = next((turn for turn in self.turns if turn.agent.name == agent), None)
            if turn is None:
                raise EpisodeError(
                    f"{agent!r} does not act now, so it sees nothing yet; "
                    f"{', '.join(turn.agent.name for turn in self.turns) or 'nobody'} does."
                )
            self._beside[agent] = self._begun(turn, self._last_of(agent), self._fresh(agent))
        return self._beside[agent]

    def _begun(self, turn: Turn, last: ActionRecord | None, earlier: list[Shown]) -> list[Message]:
        """The messages at the first action of a segment; ``last``: the agent's action before it."""
        if self.task.void:
            return [{"role": "user", "content": self.task.prompt}]
        context = self._context(turn, earlier)
        if last is None:
            return [self._prompter.render(turn.agent.role, context)]
        return _extended(last, self._prompter.render("again", context))

    def _last_of(self, agent: str) -> ActionRecord | None:
        for action in reversed(self._actions):
            if action.agent == agent:
                return action
        return None

    def _fresh(self, agent: str) -> list[Shown]:
        fresh = self.card.order.fresh(self._actions, agent)
        return earlier_segments(self.card.team, fresh, self._feedback)

    def _context(self, turn: Turn, earlier: list[Shown]) -> dict[str, Any]:
        spec = turn.agent
        names = set(self._workspace.present if self._workspace else self.task.files)
        return {
            "task": self.task,
            "agent": spec,
            "tools": self._tools.described(spec),
            "turns_left": turn.left,
            "returns": turn.returns,
            "files": sorted(names),
            "limits": self._limits,
            "missing": [name for name in spec.reads if name not in names],
            "earlier": earlier,
        }

    def _open_workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = self._execution.open_workspace(self.task, self._stamps)
        return self._workspace

    def _discard(self) -> None:
        for asked in self._pending.values():
            asked.discard()
        self._pending = {}
        if self._workspace is not None:
            self._workspace.remove()
            self._workspace = None


def _extended(last: ActionRecord, new: Message) -> list[Message]:
    """The messages of ``last``, what its agent wrote, and the ``new`` message."""
    said = {"role": "assistant", "content": last.action}
    return [*(dict(message) for message in last.messages), said, new]


def _draw(seed: int, count: int) -> int:
    """An index below ``count`` that depends only on ``seed`` (a generator would be as slow as a prompt)."""
    return derived_seed(seed, "task", bits=64) % count
