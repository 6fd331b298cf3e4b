"""The one state machine: whose turn, what it sees, run its code, collect evidence, ask the coach, next."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappa_env.cards import Card
from mappa_env.coach import Coach, make_coach
from mappa_env.coach.base import checked
from mappa_env.data import load_tasks
from mappa_env.errors import CoachError, EpisodeError, OptionError, nearest
from mappa_env.execution import Execution, Place
from mappa_env.grading import make_grader
from mappa_env.prompting import Prompter
from mappa_env.sandbox import DEFAULT, make_sandbox
from mappa_env.sandbox.base import Limits
from mappa_env.shaping import make_shaping
from mappa_env.stays import Stay, earlier_stays
from mappa_env.types import (
    ActionRecord,
    AgentSpec,
    Attribution,
    Evidence,
    Message,
    Outcome,
    Task,
    Trajectory,
    Verdict,
)
from mappa_env.workspace import Workspace

if TYPE_CHECKING:
    from mappa_env.correcting import Correcting

FEEDBACK = ("off", "agents")
JUDGING = ("blocking", "deferred")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a verdict is about. ``before``: a copy of the workspace, to try a correction in."""

    at: Place
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

    ``reset`` starts it; then ``agent`` says whose turn it is (None: over), ``messages()`` what that agent
    sees and ``act(text)`` carries its action out. Any text is a legal action. ``reset`` may be called again
    at any time. One episode is used from one thread at a time.
    """

    def __init__(
        self,
        card: Card,
        *,
        coach: str | Mapping[str, Any] = "rubric",
        sandbox: str | Mapping[str, Any] = DEFAULT,
        tasks: str = "train",
        task_options: Mapping[str, Any] | None = None,
        prompts: str = "full",
        coach_feedback: str = "off",
        judging: str = "blocking",
        shaping: str | Mapping[str, Any] = "process",
        limits: Mapping[str, float] | None = None,
    ) -> None:
        """See ``docs/environments.md`` for every option. Raises OptionError, DataMissingError, CardError."""
        if coach_feedback not in FEEDBACK:
            raise OptionError(
                f"coach_feedback={coach_feedback!r} is not offered; use one of {FEEDBACK}."
                + nearest(str(coach_feedback), FEEDBACK)
            )
        if judging not in JUDGING:
            raise OptionError(
                f"judging={judging!r} is not offered; use one of {JUDGING}." + nearest(str(judging), JUDGING)
            )
        if judging == "deferred" and coach_feedback == "agents":
            raise OptionError(
                "judging='deferred' and coach_feedback='agents' exclude each other: agents would have to see "
                "verdicts that are not in yet."
            )
        self.card = card
        self.tasks = load_tasks(card.loader, tasks, {**card.loader_options, **(task_options or {})})
        self.settings = {
            "coach": coach, "sandbox": sandbox, "tasks": tasks, "task_options": dict(task_options or {}),
            "prompts": prompts, "coach_feedback": coach_feedback, "judging": judging,
            "shaping": shaping,
        }  # fmt: skip
        self.agent: str | None = None
        self.turn = 0
        self.outcome: Outcome | None = None
        self._prompter = Prompter(card, prompts)
        self._feedback = coach_feedback == "agents"
        self._deferred = judging == "deferred"
        self._pending: dict[int, _Asked] = {}
        self._shaping = make_shaping(shaping)
        self._coach = make_coach(coach, card)
        self._sandbox = make_sandbox(sandbox)
        self._execution = Execution(
            card, self._sandbox, _override(card.limits, limits or {}),
            make_grader(card.grader, card.grader_options), probed=self._coach.name != "off",
        )  # fmt: skip
        self._correcting: Correcting | None = None
        if self._coach.corrects:
            from mappa_env.correcting import Correcting  # brings in the rubric: only when needed

            self._correcting = Correcting(card, self._execution, labels=self._coach.labels)
        self._task: Task | None = None
        self._workspace: Workspace | None = None
        self._actions: list[ActionRecord] = []
        self._evidence: list[Evidence] = []
        self._attribution: Attribution | None = None
        self._messages: list[Message] = []
        self._earlier: list[Stay] = []
        self._position = 0
        self._seed = 0

    @property
    def over(self) -> bool:
        """True once the closing action was taken (and before the first ``reset``)."""
        return self.agent is None

    @property
    def task(self) -> Task:
        if self._task is None:
            raise EpisodeError("the episode has no task yet: call reset() first.")
        return self._task

    @property
    def actions(self) -> tuple[ActionRecord, ...]:
        return tuple(self._actions)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the coach was given about each action; with ``history`` as it stood then."""
        return tuple(self._evidence)

    @property
    def coach(self) -> Coach:
        """The coach, to ask it for more than ``act`` does."""
        return self._coach

    @property
    def trajectory(self) -> Trajectory:
        """All that happened so far; complete once ``over``."""
        return Trajectory(
            self.card.id, self.task, self._seed, tuple(self._actions), self.outcome, self.settings,
            self._attribution,
        )  # fmt: skip

    @property
    def answer(self) -> str | None:
        """The final answer of an episode that is over, where the environment has discrete ones."""
        return self._execution.answer(self._actions) if self.over else None

    @property
    def credit(self) -> list[tuple[float, bool]]:
        """(reward, valid) of every action as the shaping hands it to a learner once the episode is over."""
        if not self.over:
            raise EpisodeError("credit is known only when the episode is over.")
        return self._shaping.credit(self.trajectory)

    def reset(self, *, seed: int, task_id: str | None = None) -> None:
        """Start over on ``task_id``, or on a task drawn with ``seed``. Raises UnknownTaskError."""
        if task_id is None:
            ids = self.tasks.ids
            task_id = ids[_draw(seed, len(ids))]
        task = self.tasks.get(task_id)
        self._discard()
        self._task, self._seed, self._position = task, int(seed), 0
        self._actions, self._evidence, self.outcome, self._attribution = [], [], None, None
        self._open_stay()

    def messages(self) -> list[Message]:
        """What the acting agent sees, as fresh chat messages; within a stay each turn's extend the last's."""
        return [dict(message) for message in self._messages]

    def prompt(self) -> str:
        """The same as one text."""
        if len(self._messages) == 1:
            return self._messages[0]["content"]
        return "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in self._messages)

    def act(self, text: str) -> ActionRecord:
        """Carry out the acting agent's action and hand the turn on. Raises EpisodeError when over.

        With ``judging="deferred"`` the verdict may be pending; the closing action waits until all are in.
        """
        if self.agent is None:
            raise EpisodeError("the episode is over (or not started): call reset() first.")
        if self._deferred:
            self._coach.wait()
        at = Place(
            self.task, self._spec, self.turn, tuple(self._messages), self.prompt(), tuple(self._actions),
            self._seed, self._position + 1 == len(self.card.team),
        )  # fmt: skip
        before = None
        if self._correcting is not None and self._workspace is not None:
            before = self._workspace.copy()
        draft = self._execution.run(at, text, self._open_workspace)
        self.outcome = self._execution.outcome(at, draft, self._workspace)
        evidence = self._execution.evidence(at, draft, self._workspace, self.outcome)
        self._evidence.append(evidence)
        draft = dataclasses.replace(draft, probe=evidence.probe)
        if self._deferred:
            self._pending[draft.step] = _Asked(at, evidence, before, self._coach.judge_later(evidence))
        else:
            draft = self._judged(draft, _Asked(at, evidence, before), lambda: self._coach.judge(evidence))
        self._actions.append(draft)
        if self.outcome is not None:
            self._settle()
        self._advance(self._actions[-1])
        return self._actions[-1]

    def close(self) -> None:
        """Remove the workspace and let sandbox and coach go. May be called twice."""
        self._discard()
        self._sandbox.close()
        self._coach.close()
        self.agent = None

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
        reward, valid = self._shaping.step(verdict, asked.evidence.outcome)
        return dataclasses.replace(
            draft, verdict=verdict, reward=reward, reward_valid=valid, correction=correction
        )

    def _settle(self) -> None:
        """Wait for all verdicts of the episode, and trace its end back where the shaping needs that."""
        for step, asked in self._pending.items():
            assert asked.verdict is not None
            self._actions[step] = self._judged(self._actions[step], asked, asked.verdict.result)
        self._pending = {}
        if self._shaping.traces:
            from mappa_env.coach.blame import attribute

            self._attribution = attribute(self.trajectory, self.card.team, self._coach)

    def _advance(self, record: ActionRecord) -> None:
        if record.last_turn:
            self._position += 1
            self.turn = 0
            self._open_stay()
            return
        self.turn += 1
        assert record.tool is not None  # a stay only goes on after a tool call
        feedback = record.verdict.reasoning if self._feedback else ""
        context = {**self._context(), "tool": record.tool, "feedback": feedback}
        self._messages = [
            *self._messages,
            {"role": "assistant", "content": record.action},
            self._prompter.render("tool", context),
        ]

    # -- stays and the workspace --------------------------------------------------------------------------

    @property
    def _spec(self) -> AgentSpec:
        return self.card.team.agents[self._position]

    def _open_stay(self) -> None:
        if self._position >= len(self.card.team):
            self.agent, self._messages = None, []
            return
        self.agent, self.turn = self._spec.name, 0
        self._earlier = earlier_stays(self.card.team, self._actions, self.agent, self._feedback)
        self._messages = [self._prompter.render(self._spec.role, self._context())]

    def _context(self) -> dict[str, Any]:
        spec = self._spec
        names = set(self._workspace.present if self._workspace else self.task.files)
        return {
            "task": self.task, "agent": spec, "turns_left": spec.max_turns - self.turn,
            "files": sorted(names), "missing": [name for name in spec.reads if name not in names],
            "earlier": self._earlier,
        }  # fmt: skip

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
    """An index below ``count`` from the episode seed alone (a generator would cost as much as a prompt)."""
    digest = hashlib.blake2b(f"{seed}/task".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count


def _override(limits: Limits, changes: Mapping[str, Any]) -> Limits:
    known = {f.name for f in dataclasses.fields(Limits)}
    for key, value in changes.items():
        if key not in known:
            raise OptionError(f"unknown limit {key!r}; known are {sorted(known)}." + nearest(key, known))
        if value <= 0:
            raise OptionError(f"limits[{key!r}] must be positive, found {value!r}.")
    return dataclasses.replace(limits, **changes)
