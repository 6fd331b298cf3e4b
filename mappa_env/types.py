"""The data types that the parts of the project exchange: frozen dataclasses without behaviour.

Read this file first: all others use these classes.
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
    "accuracy": "classification",
    "f1": "classification",
    "macro_f1": "classification",
    "roc_auc": "classification",
    "log_loss": "classification",
    "qwk": "classification",
    "rmse": "regression",
    "rmsle": "regression",
    "mse": "regression",
    "mae": "regression",
    "median_ae": "regression",
    "r2": "regression",
    "smape": "regression",
}


def role_of(agent: str) -> str:
    """The role in an agent's name: ``"coder"`` for ``"coder_0"``. Prompts and rubrics are per role."""
    return agent.rsplit("_", 1)[0]


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance.

    ``prompt`` is the full problem text, ``compact`` a short form for small vocabularies (empty: use
    ``prompt``). ``files`` are the public files, by workspace-relative name: bytes, or a host path to copy.
    ``truth`` is hidden: only the grader sees it, and the coach if the card allows it; never an agent or a
    sandbox. ``topic`` is a label for reports; statistics use ``family``, which follows from ``metric``.
    ``meta`` holds public extras for prompts and scripted teams, such as numbers and column names.
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
    """One agent of a team.

    ``name`` is ``<role>_<n>``; ``requires`` are the files that it must write, ``reads`` those that it needs.
    """

    name: str
    title: str
    max_turns: int = 1
    tools: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The role: the name without its number."""
        return role_of(self.name)


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
        """The names of the agents, in the order in which they act."""
        return tuple(agent.name for agent in self.agents)

    def __getitem__(self, name: str) -> AgentSpec:
        return next(agent for agent in self.agents if agent.name == name)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One entry of the file history: what an action did to one path of its workspace (host-attested).

    ``sha256`` is the hex digest or ``"skipped: <why>"``; ``kind`` is ``file``, ``dir``, ``link``, ``fifo``,
    ``socket`` or ``device``. ``agent`` and ``step`` (index in the episode) identify the action. ``links`` is
    the number of names of a file: with more than one (hard links), writing to one changes all. ``mode``: the
    permission bits as the action left them, if it changed them or closed what it made; else None. The path
    ``.`` is the workspace's own folder.
    """

    path: str
    op: FileOp
    size: int
    sha256: str
    kind: str = "file"
    agent: str = ""
    step: int = -1
    links: int = 1
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What an agent's files and folders take of a quota: ``size`` in bytes on the disk, and their number."""

    size: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Space:
    """The ``quota`` of a workspace, and who used how much of it before and after an action (host-attested).

    The writer of a file or the maker of a folder uses its space; the agent ``""`` is the task.
    """

    quota: Use
    before: Mapping[str, Use]
    after: Mapping[str, Use]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The measured result of running an action's code. Times in seconds, ``peak_rss`` in bytes.

    ``wall_s`` begins when the action starts; ``queued_s`` is the wait for a free slot before that.

    ``truncated`` is the number of dropped output bytes. ``isolation`` names the level at which the code ran;
    ``trust`` says who attests the facts: ``"kernel"`` (this host) or ``"sandbox"`` (a remote one). ``space``:
    who uses the workspace's quota; None where nobody recorded it, as outside an episode.
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
    space: Space | None = None

    @property
    def written(self) -> tuple[str, ...]:
        """The paths that the run created or changed, in order, without folders."""
        return tuple(change.path for change in self.files if change.op != "deleted" and change.kind != "dir")

    @property
    def deleted(self) -> tuple[str, ...]:
        """The paths that the run deleted or replaced by a folder, in order, without folders."""
        return tuple(
            change.path
            for change in self.files
            if change.op == ("type_changed" if change.kind == "dir" else "deleted")
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended. ``score`` is in [0, 1]; ``status`` is ``ok`` or names the problem."""

    score: float
    success: bool
    status: str
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a verdict: its ``score`` in [0, 1], its ``weight`` and its reason.

    ``quote``: the part of the evidence that a model cites for it.
    """

    name: str
    score: float
    weight: float
    reason: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class CallInfo:
    """Provenance and cost of a language model's verdict.

    ``prompt_sha`` is the SHA-256 of the request without nonces. ``calls`` counts the calls for this verdict,
    including retries (0: all answers came from the cache), ``retries`` those after a failed call.
    ``latency_s`` is the duration of the last call, ``waited_s`` the wait for rate limits and retries. Token
    counts: ``prompt`` includes ``cached``, but ``output`` excludes ``thoughts``. ``cost`` is in dollars, None
    if the price is unknown. Tokens and cost exclude answers from the cache. ``spread`` is the largest minus
    the smallest score of several samples.
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
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The coach's verdict on one action.

    ``score`` is 0-10, and None unless ``status`` is ``ok`` or ``suspect``. ``pending``: the coach has not
    answered yet; it does so before the episode is over.

    ``blame`` names the agent that the coach blames for a problem in this action (None: no agent).
    """

    status: VerdictStatus
    score: float | None
    reasoning: str = ""
    criteria: tuple[Criterion, ...] = ()
    blame: str | None = None
    corrected_action: str | None = None
    coach: str = ""
    asked: CallInfo | None = None

    @property
    def valid_score(self) -> float | None:
        """The score (0-10) if ``status`` is ``ok``, else None."""
        return self.score if self.status == "ok" else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a coach may rely on about one action.

    Host-attested: ``tool`` (status, exit code, files, space), ``present`` (path -> last change of every file
    now in the workspace, with its writer; task files have ``agent=""``), ``missing`` (inputs of this agent
    that no agent wrote), ``probe`` (facts from the separate sandboxed probe, None if none ran), ``outcome``
    (only for the closing action), ``provisional_outcome`` (the grade if the episode ended with this action;
    only for the closing agent, and only if the card allows the truth).
    Agent-controlled: ``action``, ``tool.stdout``, ``tool.stderr``.
    ``truth`` is the task's hidden truth if the card allows it for this agent's verdicts, else None.
    ``last_turn``: whether this action ends the segment.
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
    probe: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    provisional_outcome: Outcome | None = None
    truth: Mapping[str, Any] | None = None

    @property
    def stratum(self) -> tuple[str, str, int]:
        """(task family, role, turn): the key of the coach's bias statistics."""
        return (self.task.family, self.agent.role, self.turn)


@dataclass(frozen=True, slots=True)
class CorrectedAction:
    """An action that the coach proposed in place of an agent's, and the result of trying it.

    ``verdict`` is the rubric's verdict on it, and ``was`` the rubric's score of the agent's action (None: no
    score). ``kept``: it is better; otherwise ``reason`` says why it was rejected.
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
    """One complete action: what the agent saw, wrote and did, its verdict and its reward.

    ``reward`` (0-10) is what the shaping makes of the verdict and the outcome. If there is no score, or the
    reward is pending, ``reward_valid`` is False and ``reward`` is 0.0: mask such actions in training.
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
    missing: tuple[str, ...] = ()
    probe: Mapping[str, Any] | None = None
    correction: CorrectedAction | None = None

    @property
    def role(self) -> str:
        """The role of the agent."""
        return role_of(self.agent)


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the causal chain from the end of an episode back to the cause.

    ``action`` is the step of the action; ``reason`` says how it relates to the previous link.
    """

    action: int
    reason: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """Which actions caused the end of an episode.

    ``failed``: whether the fractions are blame for a failure or credit for a success. ``fractions``: one per
    action, with sum 1; empty if unknown. ``decided``: by backward ``tracing`` alone, by the episode's
    ``verdicts``, by one more call to the ``coach``, or by ``nobody``. ``walk`` leads from the end back to the
    cause. ``suspects`` are the actions that could have caused it. ``asked``: provenance of the coach's
    answer, if it was called.
    """

    failed: bool
    fractions: tuple[float, ...]
    decided: Literal["tracing", "verdicts", "coach", "nobody"]
    walk: tuple[Link, ...] = ()
    suspects: tuple[int, ...] = ()
    asked: CallInfo | None = None

    @property
    def culprit(self) -> int | None:
        """The first action with the largest blame; None for a success or if unknown."""
        return self.fractions.index(max(self.fractions)) if self.failed and self.fractions else None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The full record of an episode.

    ``outcome`` is None until the episode is over; ``attribution`` is None unless the shaping needs it.
    """

    env_id: str
    task: Task
    seed: int
    actions: tuple[ActionRecord, ...]
    outcome: Outcome | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    attribution: Attribution | None = None
