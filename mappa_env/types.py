"""The nouns of the project: frozen records that travel between the parts.

Nothing here does anything; a reader who knows these classes can read every other file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Message = dict[str, str]
"""A chat message: ``{"role": "user" | "assistant" | "system", "content": text}``."""

RunStatus = Literal["ok", "error", "timeout", "memory", "killed", "output_limit", "disk_limit", "unavailable"]
FileOp = Literal["created", "modified", "deleted", "renamed", "type_changed"]
VerdictStatus = Literal["ok", "abstain", "error", "suspect", "pending"]

_FAMILIES = {
    "exact_match": "math",
    "accuracy": "classification", "f1": "classification", "macro_f1": "classification",
    "roc_auc": "classification", "log_loss": "classification", "qwk": "classification",
    "rmse": "regression", "rmsle": "regression", "mse": "regression", "mae": "regression",
    "median_ae": "regression", "r2": "regression", "smape": "regression",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance.

    ``prompt`` is the full problem text, ``compact`` a short form for small vocabularies (empty: use
    ``prompt``). ``files`` are the public files, by workspace-relative name: bytes, or a host path to copy.
    ``truth`` is hidden: it reaches the grader, and the coach only where the card says so; never an agent or
    a sandbox. ``topic`` is a label for reports; statistics are keyed by ``family``, which follows from
    ``metric``. ``meta`` holds public extras for prompts and scripted teams (numbers, column names).
    """

    id: str
    prompt: str
    metric: str
    compact: str = ""
    topic: str = ""
    split: str = ""
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict, repr=False)
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def family(self) -> str:
        """Task family, derived from the metric (never from a label in the data)."""
        return _FAMILIES.get(self.metric, self.metric)


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One seat of a team. ``name`` is ``<role>_<n>``; ``requires`` are the files its stay must write."""

    name: str
    title: str
    max_turns: int = 1
    tools: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        return self.name.rsplit("_", 1)[0]


@dataclass(frozen=True, slots=True)
class Team:
    """The ordered agents of a card."""

    agents: tuple[AgentSpec, ...]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.agents)

    def __len__(self) -> int:
        return len(self.agents)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(agent.name for agent in self.agents)

    def __getitem__(self, name: str) -> AgentSpec:
        return next(agent for agent in self.agents if agent.name == name)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One entry of the trail: what an action did to one path of its workspace (host-attested).

    ``sha256`` is the hex digest or ``"skipped: <why>"``; ``kind`` is ``file``, ``dir``, ``link``, ``fifo``,
    ``socket`` or ``device``. ``agent`` and ``step`` (index of the action in its episode) say who did it.
    """

    path: str
    op: FileOp
    size: int
    sha256: str
    kind: str = "file"
    agent: str = ""
    step: int = -1


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What running an action's code really did. Times in seconds, ``peak_rss`` in bytes.

    ``wall_s`` begins when the action starts; the wait for a free slot before that is ``queued_s``.

    ``truncated`` is the number of output bytes that were dropped. ``isolation`` names the level the code ran
    under; ``trust`` says who vouches for the facts: ``"kernel"`` (this host) or ``"sandbox"`` (a remote one).
    """

    status: RunStatus
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss: int = 0
    files: tuple[FileChange, ...] = ()
    isolation: str = "none"
    trust: str = "kernel"
    queued_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the whole episode ended. ``score`` in [0, 1]; ``status`` is ``ok`` or says what was wrong."""

    score: float
    success: bool
    status: str
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a verdict: ``score`` in [0, 1] of ``weight``, with its reason.

    ``quote``: the span of the evidence that a model gave for it.
    """

    name: str
    score: float
    weight: float
    reason: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a verdict of a language model came about.

    ``prompt_sha`` is the SHA-256 of all that was sent, nonces left out; ``calls`` those made for this
    verdict, retries too (0: all came from the cache); ``latency_s`` of the last call; ``waited_s`` for rate
    limits and retries. Tokens: ``cached`` are part of ``prompt``, ``thoughts`` not of ``output``. ``cost`` in
    dollars, None where the price is not known; tokens and cost count only what was asked now. ``spread``:
    largest minus smallest score, where several samples were asked for.
    """

    model: str
    model_version: str
    template: str
    prompt_sha: str
    response_ids: tuple[str, ...] = ()
    calls: int = 0
    latency_s: float = 0.0
    waited_s: float = 0.0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    thoughts: int = 0
    cost: float | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The coach's answer about one action. ``score`` is 0-10, and None unless ``status`` is ok or suspect.
    ``pending``: it is still being asked, and will be in when the episode is over.

    ``blame`` names the agent the coach holds responsible for what went wrong in this action (None: nobody).
    """

    status: VerdictStatus
    score: float | None
    reasoning: str = ""
    criteria: tuple[Criterion, ...] = ()
    blame: str | None = None
    corrected_action: str | None = None
    coach: str = ""
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All a coach may rely on about one action.

    Host-attested: ``tool`` (status, exit code, files), ``present`` (path -> last change of every file now in
    the workspace, with its writer; files of the task have ``agent=""``), ``missing`` (files this agent's
    inputs need and that nobody wrote), ``claims`` (files that the text claims were saved and that this
    action did not write), ``probe`` (facts from the separate sandboxed probe, None when none ran),
    ``outcome`` (only for the closing action), ``standing`` (how the episode would be graded if it ended with
    this action; only for the closing agent, and only where the card allows the truth).
    Agent-controlled: ``action``, ``tool.stdout``, ``tool.stderr``.
    ``truth`` is the task's hidden truth where the card allows this role's verdict to use it, else None.
    ``last_turn`` says that the stay ended with this action.
    """

    task: Task
    agent: AgentSpec
    turn: int
    step: int
    prompt: str
    action: str
    code: str | None
    tool: ToolResult | None
    last_turn: bool
    history: tuple[ActionRecord, ...] = ()
    present: Mapping[str, FileChange] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    standing: Outcome | None = None
    truth: Mapping[str, Any] | None = None

    @property
    def stratum(self) -> tuple[str, str, int]:
        return (self.task.family, self.agent.role, self.turn)


@dataclass(frozen=True, slots=True)
class Correction:
    """An action that the coach proposed in place of one that was taken, and what became of trying it.

    ``verdict`` is the rubric's on it and ``was`` the rubric's score of the action that was taken (None: it
    had none). ``kept``: it is better; else ``reason`` says why it is not believed.
    """

    action: str
    code: str | None
    tool: ToolResult | None
    verdict: Verdict
    was: float | None
    kept: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action, whole: what the agent saw, wrote and did, and what it earned.

    ``reward`` is what ``step()`` hands out (0.0 where ``reward_valid`` is False: never train on it).
    ``thinking`` and ``answer`` are the two halves of ``action``; ``code`` is what ran (None: no tool call).
    """

    step: int
    agent: str
    turn: int
    messages: tuple[Message, ...]
    action: str
    thinking: str
    answer: str
    code: str | None
    tool: ToolResult | None
    verdict: Verdict
    reward: float
    reward_valid: bool
    stratum: tuple[str, str, int]
    seed: int
    last_turn: bool
    claims: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    correction: Correction | None = None

    @property
    def role(self) -> str:
        return self.agent.rsplit("_", 1)[0]


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a walk back from how an episode ended: ``action`` (its step), and what it has to do with
    the link before it."""

    action: int
    reason: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whose doing the end of an episode is.

    ``failed`` says what the shares are of: blame for a failure, or credit for a success. ``shares``: one per
    action, >= 0, with sum 1; empty where they could not be had. ``decided``: by the ``trail`` alone, by the
    ``verdicts`` of the episode, by one more call to the ``coach``, or by ``nobody``. ``walk`` goes from the
    end back to the cause. ``suspects`` are the actions that could have caused it. ``asked``: how the coach's
    answer came about, or that none came.
    """

    failed: bool
    shares: tuple[float, ...]
    decided: Literal["trail", "verdicts", "coach", "nobody"]
    walk: tuple[Link, ...] = ()
    suspects: tuple[int, ...] = ()
    asked: Asked | None = None

    @property
    def culprit(self) -> int | None:
        """The action with the largest blame, the first of equals; None for a success, or where unknown."""
        return self.shares.index(max(self.shares)) if self.failed and self.shares else None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The full record of an episode. ``outcome`` is None until the episode is over; ``attribution`` is there
    where the shaping needs it."""

    env_id: str
    task: Task
    seed: int
    actions: tuple[ActionRecord, ...]
    outcome: Outcome | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    attribution: Attribution | None = None
