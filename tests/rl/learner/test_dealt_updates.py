"""What a learner learns and reports does not depend on the number of processes."""

from __future__ import annotations

import json
import math
import sys

import pytest

from dealt_updates import CASES, learner_of, measure
from paths import HELPERS
from several_processes import run_processes

Found = dict[str, list[dict[str, float]]]


@pytest.fixture(scope="module")
def one() -> Found:
    return {name: measure(case, learner_of(case)) for name, case in CASES.items()}


@pytest.fixture(
    scope="module", params=[2, pytest.param(4, marks=pytest.mark.large)], ids="{} processes".format
)
def several(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    out = tmp_path_factory.mktemp("several") / "found.json"
    program = [sys.executable, str(HELPERS / "dealt_updates.py"), str(out)]
    run_processes(program, request.param, timeout_s=800)
    found: Found = json.loads(out.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_metric_is_that_of_one_process(name: str, one: Found, several: Found) -> None:
    for alone, shared in zip(one[name], several[name], strict=True):
        assert shared == pytest.approx(alone, rel=1e-3, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_cases_have_something_to_show(name: str, one: Found) -> None:
    case, (first, second, _) = CASES[name], one[name]
    assert first["updates"] == case.minibatches * case.epochs
    assert first["skipped_updates"] == case.broken
    for stats in (first, second):
        assert all(map(math.isfinite, stats.values()))
        assert min(stats[name] for name in ("kl", "kl_loss", "mismatch", "grad_norm", "entropy")) > 1e-3
        assert 0 < stats["clip_fraction"] < 1
    assert ("sft_loss" in first) == case.demonstrated
    assert ("value_loss" in first) == case.critic


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo", "LoRA", "critic"])
def test_the_number_of_minibatches_does_matter(kind: str, one: Found) -> None:
    norms = [one[f"{kind}, {n}"][0]["grad_norm"] for n in (1, 2, 4)]
    assert norms[0] * 1.01 < norms[1]
    assert norms[1] * 1.01 < norms[2]
