"""docs/metrics.md and what runs log agree: no key without a row, no row that nothing produces."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mappa_env.types import CallInfo, Outcome, Task, ToolCall, ToolResult, Trajectory, Verdict
from mappa_rl.config import load_config
from mappa_rl.rollout.metrics import service_stats
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.step import advantage_stats
from mappa_rl.training.trainer import train
from paths import ROOT
from recorded import recorded
from tiny_run import TINY

ROW = re.compile(r"^\| `(?P<key>[^`]+)` \| (?P<unit>[^|]+) \| (?P<meaning>[^|]+) \|$")
SMALL = [
    *TINY,
    "warmstart.episodes=60",
    "warmstart.steps=120",
    "warmstart.batch_size=8",
    "rollout.max_new_tokens=16",
    "run.steps=2",
    "run.checkpoint_every=0",
]
RUNS = {
    "everything else": [
        "rollout.episodes_per_step=16",
        "bias.correct=mean",
        "bias.test_every=1",
        "bias.anchors=8",
        "bias.anchors_every=1",
        "algo.overlong_penalty=1",
        "algo.overlong_buffer=4",
        "sft.corrections_coef=0.5",
        "env.coach={name: rubric, corrector: compact}",
    ],
    "groups, a correction, a penalty in the loss": [
        "rollout.episodes_per_step=8",
        "rollout.group_size=4",
        "algo.importance_sampling=tis",
        "algo.kl=loss_k2",
        "algo.name=grpo",
        "algo.drop_zero_variance_groups=true",
        "rollout.refill_rounds=1",
    ],
    "a critic, tasks for validation, a stream": [
        "algo.name=ppo",
        "eval.validation_tasks=2",
        "rollout.staleness=1",
        "algo.importance_sampling=tis",
        "rollout.episodes_per_step=4",
        "rollout.max_episode_s=600",
        "rollout.retries=1",
    ],
    "nothing to learn from": [
        "rollout.episodes_per_step=4",
        "env.coach=off",
        "rollout.max_masked_fraction=1",
    ],
}
NEEDS_SIGNAL = (
    "bias/offset/",
    "bias/slope/",
    "bias_low/",
    "bias_high/",
    "bias_p/",
    "corrections/",
    "sft_",
    "sync/",
)
"""What eight episodes of a policy that can do nothing cannot bring about, or the hf engine; their own tests
do."""


def rows() -> list[tuple[str, re.Pattern[str]]]:
    """Every key of the table, with the pattern that it stands for."""
    found = []
    for line in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            match = ROW.match(line)
            assert match, f"a row needs a key, a unit and a meaning: {line}"
            key = match["key"]
            parts = re.split(r"(<[a-z]+>)", key)
            wide = {"<where>": ".+", "<topic>": ".+"}
            text = "".join(wide.get(p, "[^/]+") if p.startswith("<") else re.escape(p) for p in parts)
            found.append((key, re.compile(text)))
    return found


def asked(calls: int, latency: float, cost: float | None) -> Verdict:
    retries = max(calls - 1, 0)
    facts = CallInfo(
        "m", "m-1", "t", "sha", calls=calls, retries=retries, latency_s=latency, waited_s=1.0, cost=cost
    )
    return Verdict("ok", 6.0, asked=facts)


def services() -> dict[str, float]:
    """Of a trajectory as a sandbox and a language model as the coach leave it; made by hand."""
    tools = [
        ToolResult(status, 0, "", "", wall_s=seconds, queued_s=0.5)
        for status, seconds in (("ok", 1.0), ("error", 2.0), ("timeout", 6.0), ("memory", 3.0))
    ]
    verdicts = [asked(2, 4.0, 0.02), asked(0, 0.0, 0.0), Verdict("error", None), Verdict("ok", 2.0)]
    actions = [recorded("coder_0", tool=t, verdict=v) for t, v in zip(tools, verdicts, strict=True)]
    calls = [ToolCall("search", {}, status, seconds=2.0) for status in ("ok", "timeout", "refused", "ok")]
    actions.append(recorded(verdict=Verdict("abstain", None), calls=tuple(calls)))
    return service_stats(
        [Trajectory("x", Task("t", "p", "exact_match"), 0, tuple(actions), Outcome(0.0, False, "ok", ""))]
    )


def test_sandbox_and_coach_are_reported_by_agent_and_stratum() -> None:
    found = services()
    assert found["sandbox/runs/coder_0"] == 4
    assert found["sandbox/errors/coder_0"] == found["sandbox/timeouts/coder_0"] == 0.25
    assert found["sandbox/failures/coder_0"] == 0.25
    assert found["sandbox/not_ok/math/coder/0"] == 0.75
    assert (found["time/sandbox/coder_0"], found["time/sandbox_queue/coder_0"]) == (3.0, 0.5)
    assert "sandbox/runs/solver_0" not in found
    assert (found["tools/calls/solver_0"], found["time/tools/solver_0"]) == (4, 2.0)
    assert found["tools/refused/solver_0"] == found["tools/failures/solver_0"] == 0.25
    assert (found["coach/ok/coder_0"], found["coach/error/coder_0"]) == (0.75, 0.25)
    assert (found["coach/abstain/solver_0"], found["coach/ok/solver_0"]) == (1.0, 0.0)
    assert found["coach/score/math/coder/0"] == pytest.approx(14 / 3)
    assert (found["coach/calls"], found["coach/dollars"], found["coach/cached"]) == (2, 0.02, 0.5)
    assert found["coach/retries"] == 1
    assert (found["time/coach"], found["time/coach_wait"]) == (4.0, 1.0)


def test_advantages_are_of_the_tokens_trained_on() -> None:
    values = [np.array([5, 1, -3], np.float32), np.array([2], np.float32)]
    mass = [np.array([0, 1, 1], np.float32), np.array([0], np.float32)]
    found = advantage_stats(values, mass)
    assert found == {"advantage_mean": -1.0, "advantage_std": 2.0, "advantage_abs": 2.0}
    assert advantage_stats(values, [np.zeros(3, np.float32), np.zeros(1, np.float32)]) == {}


def test_rows_are_distinct() -> None:
    keys = [key for key, _ in rows()]
    assert len(keys) == len(set(keys)) > 60


@pytest.mark.slow
def test_every_key_has_a_row_and_every_row_a_key(tmp_path: Path) -> None:
    logged = set(services())
    for index, overrides in enumerate(RUNS.values()):
        out = tmp_path / str(index)
        train(load_config("demo", [*SMALL, *overrides]), out)
        logged |= {key for row in read_metrics(out) for key in row if key != "step"}
    table = rows()
    unknown = sorted(key for key in logged if not any(pattern.fullmatch(key) for _, pattern in table))
    assert unknown == [], "these keys are logged and not in docs/metrics.md"
    unused = [key for key, pattern in table if not any(pattern.fullmatch(name) for name in logged)]
    sources = "\n".join(path.read_text() for path in (ROOT / "mappa_rl").rglob("*.py"))
    never = [key for key in unused if not (key.startswith(NEEDS_SIGNAL) and key.split("/")[0] in sources)]
    assert never == [], "these rows of docs/metrics.md are produced by nothing"
