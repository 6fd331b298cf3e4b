"""Every algorithm against numbers computed by hand, and what runs are refused."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from learner_helpers import make_sample
from mappa_rl.algos import ALGORITHMS, make_algorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import load_config
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.jobs import jobs_of
from mappa_rl.types import Sample
from paths import ROOT

EXAMPLE = ROOT / "examples" / "algorithm.py"


def episode(index: int, task: str, rewards: list[float], lengths: list[int], **changes: Any) -> Sample:
    """One segment: an action per reward, each after one token of context."""
    made = make_sample([(1, length) for length in lengths], rewards, seed=index, **changes)
    spans = tuple(
        dataclasses.replace(span, stratum=("math", "a", turn)) for turn, span in enumerate(made.spans)
    )
    made.ids[0] = 7  # every episode begins in the same state
    return dataclasses.replace(made, spans=spans, group=task, episode=index)


def batch(more: float = 0.0) -> list[Sample]:
    """Task t: one episode of two actions (2 tokens and 1) and one of one; task u: a single episode."""
    return [
        episode(0, "t", [1 + more, 3 + more], [2, 1]),
        episode(1, "t", [5 + more], [1]),
        episode(2, "u", [9 + more], [1]),
    ]


def per_action(advantages: list[np.ndarray], samples: list[Sample]) -> list[float]:
    return [float(a[span.start]) for a, s in zip(advantages, samples, strict=True) for span in s.spans]


# rewards of t: 1, 3, 5 (mean 3, std 1.63299); episodes 4, 5; first context of t: 1, 5; second: 3 alone
TABLE = [
    ("grpo", {}, [-1.224745, 0, 1.224745, 0]),
    ("dr_grpo", {}, [-2, 0, 2, 0]),
    ("dr_grpo", {"mode": "return_to_go"}, [0, -1, 1, 0]),  # returns 4, 3, 5
    ("rloo", {}, [1 - 5, 3 - 5, 5 - 2, 0]),
    # less 3: -2 (two tokens), 0, 2, 0; mean -0.4, var 2.24
    ("reinforce_pp_baseline", {}, [-1.069045, 0.267261, 1.603567, 0.267261]),
    ("gigpo", {}, [-1 - 1, -1 + 0, 1 + 1, 0]),
    ("gigpo", {"omega": 0.5}, [-1.5, -1, 1.5, 0]),
    ("raft", {"least": 4.0}, [0, 0, 1, 1]),
    ("raft", {"least": 4.0, "mode": "return_to_go"}, [1, 0, 1, 1]),
    ("ema", {}, [1 - 4.5, 3 - 4.5, 5 - 4.5, 9 - 4.5]),
]


@pytest.mark.parametrize(("name", "settings", "expected"), TABLE)
def test_advantages_by_hand(name: str, settings: dict[str, Any], expected: list[float]) -> None:
    samples = batch()
    found = make_algorithm(name, reward_scale=1.0, kl_coef=0.0, **settings).token_advantages(samples)
    assert per_action(found.advantages, samples) == pytest.approx(expected, abs=1e-5)
    assert found.advantages[0][1] == found.advantages[0][2]  # every token of an action
    for advantages, weights, sample in zip(found.advantages, found.weights, samples, strict=True):
        assert np.array_equal(weights, sample.action_mask)
        assert not advantages[~sample.action_mask].any()


@pytest.mark.parametrize("name", sorted({name for name, *_ in TABLE}))
def test_invalid_actions_and_other_policies_count_nowhere(name: str) -> None:
    right = per_action(
        make_algorithm(name, reward_scale=1.0, kl_coef=0.0).token_advantages(batch()).advantages, batch()
    )
    other_policy = [episode(3, "t", [100.0], [2], policy="q", agent="b_0")]
    invalid = [episode(4, "t", [float("nan")], [3], valid=[False])]
    algorithm = make_algorithm(name, reward_scale=1.0, kl_coef=0.0)  # one instance serves all policies
    other = algorithm.token_advantages(other_policy)
    assert other.stats["actions"] == 1
    found = algorithm.token_advantages([*batch(), *invalid])
    assert per_action(found.advantages[:3], batch()) == pytest.approx(right, abs=1e-5)
    assert not found.weights[3].any()
    assert not found.advantages[3].any()
    assert found.stats["actions"] == 5
    assert found.stats["invalid"] == 1
    assert np.isfinite(list(found.stats.values())).all()
    nothing = make_algorithm(name, reward_scale=1.0, kl_coef=0.0).token_advantages(invalid)
    assert not nothing.weights[0].any()


@pytest.mark.parametrize("name", sorted({name for name, *_ in TABLE}))
def test_the_kl_penalty_is_summed_in_the_action_and_left_as_it_is(name: str) -> None:
    samples = batch()
    plain = make_algorithm(name, reward_scale=1.0, kl_coef=0.0).token_advantages(samples).advantages
    reference = [np.where(s.action_mask, s.logprobs - 1, 5).astype(np.float32) for s in samples]  # kl = 1
    made = make_algorithm(name, reward_scale=1.0, kl_coef=0.1)
    assert made.needs_reference
    found = made.token_advantages(samples, reference)
    assert found.advantages[0][[1, 2, 4]] == pytest.approx(plain[0][[1, 2, 4]] - [0.2, 0.1, 0.1], abs=1e-5)
    assert found.stats["reference_kl"] == pytest.approx(1, abs=1e-5)
    with pytest.raises(ConfigError, match="needs the log-probs of a reference"):
        made.token_advantages(samples)


@pytest.mark.parametrize("name", list(ALGORITHMS.builtin))
def test_a_policy_without_samples_gets_nothing(name: str) -> None:
    algorithm = make_algorithm(name, kl_coef=0.0)
    found = algorithm.token_advantages([], None, []) if name == "ppo" else algorithm.token_advantages([])  # type: ignore[call-arg]
    assert (found.advantages, found.weights, found.stats) == ([], [], {})


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "reinforce_pp_baseline", "gigpo"])
def test_a_group_without_differences_gives_no_signal(name: str) -> None:
    same = [episode(k, "t", [0.7], [1 + k]) for k in range(3)]
    found = make_algorithm(name, reward_scale=1.0, kl_coef=0.0).token_advantages(same)
    assert per_action(found.advantages, same) == pytest.approx([0, 0, 0], abs=1e-6)


def test_the_running_baseline_is_that_of_earlier_steps_and_survives_a_checkpoint() -> None:
    rule = make_algorithm("ema", reward_scale=1.0, kl_coef=0.0, reward_clip=100.0, decay=0.9)
    rule.token_advantages(batch())
    state = json.loads(json.dumps(rule.state()))
    assert state == {"a_0": pytest.approx(4.5)}
    resumed = make_algorithm("ema", reward_scale=1.0, kl_coef=0.0, reward_clip=100.0, decay=0.9)
    resumed.load(state)
    for each in (rule, resumed):
        assert per_action(each.token_advantages(batch(10)).advantages, batch()) == pytest.approx(
            [6.5, 8.5, 10.5, 14.5]
        )
        assert each.state() == {"a_0": pytest.approx(0.9 * 4.5 + 0.1 * 14.5)}


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "reinforce_pp_baseline", "gigpo"])
def test_comparing_episodes_needs_several(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape("Set rollout.group_size=8")):
        algorithm_of(load_config("demo", [f"algo.name={name}"]))
    assert algorithm_of(load_config("demo", [f"algo.name={name}", "rollout.group_size=8"]))


def test_samples_per_task_play_the_same_task_with_other_seeds() -> None:
    ids: Any = SimpleNamespace(task_ids=[f"t{i}" for i in range(50)])
    config = load_config("demo", ["rollout.episodes_per_step=12", "rollout.group_size=4"])
    jobs = jobs_of(config, ids, 3)
    assert len({job.seed for job in jobs}) == 12
    tasks = [job.task_id for job in jobs]
    assert [len(set(tasks[i : i + 4])) for i in (0, 4, 8)] == [1, 1, 1]
    assert len(set(tasks)) > 1
    assert [job.task_id for job in jobs_of(config, ids, 4)] != tasks
    one = load_config("demo", ["rollout.episodes_per_step=12"])
    assert [job.seed for job in jobs_of(one, ids, 3)] == [job.seed for job in jobs]
    assert {job.task_id for job in jobs_of(one, ids, 3)} == {None}
    with pytest.raises(ConfigError, match=r"must divide rollout\.episodes_per_step"):
        load_config("demo", ["rollout.episodes_per_step=12", "rollout.group_size=5"])


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["algo.name=rlo"], "Did you mean 'rloo'?"),
        (["algo.name=ema", "algo.options.deca=0.5"], "Did you mean 'decay'?"),
        (["algo.name=ema", "algo.options.decay=1.5"], "decay=1.5 must be"),
        (["algo.options.gamma=0.5"], "Set algo.gamma, not"),
        (["algo.name=nowhere.py:Mine"], "'nowhere.py' does not exist"),
        (["algo.name={example}:Median"], "Did you mean 'MedianBaseline'?"),
        (["algo.name={example}:np"], "is neither a class nor a function"),
        (["algo.name={example}:MedianBaseline", "algo.options.kepe=1"], "Did you mean 'keep'?"),
        (["algo.name={example}:MedianBaseline", "algo.options.keep=2"], "keep=2 must be above 0"),
        (
            ["algo.name={bare}:Bare", "algo.gamma=0.5"],
            "ignores algo.gamma; remove it. Its settings are share.",
        ),
        (["algo.name={bare}:NoCredit"], "is not an algorithm: it needs token_advantages()"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, overrides: list[str], said: str) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(
        "from dataclasses import dataclass\nfrom mappa_rl.algos import Algorithm\n"
        "@dataclass(frozen=True)\nclass Bare(Algorithm):\n    share: float = 1.0\n"
        "@dataclass\nclass NoCredit:\n    share: float = 1.0\n"
    )
    names = {"{example}": str(EXAMPLE), "{bare}": str(bare)}
    for short, path in names.items():
        overrides = [each.replace(short, path) for each in overrides]
    with pytest.raises(ConfigError, match=re.escape(said)):
        algorithm_of(load_config("demo", overrides))


def test_an_installed_package_offers_algorithms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{ALGORITHMS.group}]\ntheirs = their_rule:Rule\nbroken = their_rule:Nothing\n"
    )
    (tmp_path / "their_rule.py").write_text(EXAMPLE.read_text().replace("MedianBaseline", "Rule"))
    monkeypatch.syspath_prepend(tmp_path)
    assert {"theirs", "broken", "grpo"} <= set(ALGORITHMS.names())
    assert algorithm_of(load_config("demo", ["algo.name=theirs", "algo.options.keep=0.5"])).keep == 0.5  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="cannot be imported"):
        make_algorithm("broken")
