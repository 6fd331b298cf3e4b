"""The same actions give the same loss and gradient norm, however they are cut, dealt and distributed."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from learner_helpers import make_model, padded_gradient
from learner_variants import Variant, actions, measure
from paths import HELPERS
from several_processes import run_processes

ONE = {
    "packed": Variant(),
    "micro-batches": Variant(budget=60),
    "one sequence per pass": Variant(budget=1),
    "separate turns": Variant(merged=False),
    "separate turns in micro-batches": Variant(merged=False, budget=60),
    "chunked logits": Variant(chunk=640),
    "recomputed layers": Variant(gradient_checkpointing=True, budget=60),
    "ZeRO 1": Variant(zero_stage=1, budget=60),
    "ZeRO 2": Variant(zero_stage=2, budget=60),
    "ZeRO 3": Variant(zero_stage=3, budget=60),
    "ZeRO 2 offload": Variant(zero_stage=2, budget=60, offload=True),
    "ZeRO 3 offload": Variant(zero_stage=3, budget=60, offload=True),
    "ZeRO 3 chunked, recomputed": Variant(zero_stage=3, budget=60, gradient_checkpointing=True, chunk=640),
}
BF16 = {
    "bf16 ZeRO 1": Variant(zero_stage=1, budget=60, dtype="bfloat16"),
    "bf16 ZeRO 2 offload": Variant(zero_stage=2, budget=60, offload=True, dtype="bfloat16"),
    "bf16 ZeRO 3 chunked": Variant(zero_stage=3, budget=60, chunk=640, dtype="bfloat16"),
    "autocast": Variant(budget=60, autocast=True),
    "autocast ZeRO 2, recomputed": Variant(
        zero_stage=2, budget=60, autocast=True, gradient_checkpointing=True
    ),
    "autocast ZeRO 3 chunked": Variant(zero_stage=3, budget=60, chunk=640, autocast=True),
}
CRITIC = {
    "critic": Variant(critic=True),
    "critic in micro-batches, ZeRO 2": Variant(critic=True, budget=60, zero_stage=2),
    "critic chunked, ZeRO 3": Variant(critic=True, budget=60, zero_stage=3, chunk=640),
}
TWO = (
    "packed",
    "separate turns in micro-batches",
    "chunked logits",
    "recomputed layers",
    "ZeRO 1",
    "ZeRO 2",
    "ZeRO 3",
    "ZeRO 2 offload",
    "ZeRO 3 offload",
    "ZeRO 3 chunked, recomputed",
)


@pytest.fixture(scope="module")
def right() -> tuple[float, float]:
    """Every turn a row of a padded batch, plain autograd."""
    loss, gradient = padded_gradient(make_model(), *actions(merged=False))
    return loss, float(torch.cat([g.flatten() for g in gradient]).norm())


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, ...]]:
    """The variants of ``TWO``, ``BF16`` and ``CRITIC`` on two gloo processes."""
    out = tmp_path_factory.mktemp("two") / "found.json"
    program = HELPERS / "learner_variants.py"
    variants = {name: ONE[name] for name in TWO} | BF16 | CRITIC
    run_processes([sys.executable, str(program), str(out), json.dumps(variants)], 2, timeout_s=800)
    found: dict[str, tuple[float, ...]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_the_padded_batch_has_something_to_show(right: tuple[float, float]) -> None:
    assert abs(right[0]) > 0.01
    assert right[1] > 0.1


@pytest.mark.parametrize("name", ONE)
def test_one_process(name: str, right: tuple[float, float]) -> None:
    assert measure(ONE[name]) == pytest.approx(right, rel=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("name", TWO)
def test_two_processes(name: str, right: tuple[float, float], two: dict[str, tuple[float, ...]]) -> None:
    assert two[name] == pytest.approx(right, rel=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("name", CRITIC)
def test_a_critic_on_two_processes_is_that_of_one(name: str, two: dict[str, tuple[float, ...]]) -> None:
    """What one process has to learn is held against a plain loop in ``test_ppo.py``."""
    right = measure(CRITIC["critic"])
    assert min(map(abs, right)) > 0.01
    assert right[-1] < 1
    assert measure(CRITIC[name]) == pytest.approx(right, rel=1e-4)
    assert two[name] == pytest.approx(right, rel=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("name", BF16)
def test_bf16_is_near_on_one_process_and_on_two(
    name: str, right: tuple[float, float], two: dict[str, tuple[float, ...]]
) -> None:
    assert measure(BF16[name]) == pytest.approx(right, rel=0.05)
    assert two[name] == pytest.approx(right, rel=0.05)
