"""The same actions give the same loss and gradient norm, however they are cut, dealt and distributed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from learner_helpers import make_model, padded_gradient
from learner_variants import Variant, actions, measure

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
    "ZeRO 3 chunked, recomputed": Variant(
        zero_stage=3, budget=60, gradient_checkpointing=True, chunk=640
    ),
}  # fmt: skip
BF16 = {
    "bf16 ZeRO 1": Variant(zero_stage=1, budget=60, dtype="bfloat16"),
    "bf16 ZeRO 2 offload": Variant(zero_stage=2, budget=60, offload=True, dtype="bfloat16"),
    "bf16 ZeRO 3 chunked": Variant(zero_stage=3, budget=60, chunk=640, dtype="bfloat16"),
}
CRITIC = {
    "critic": Variant(critic=True),
    "critic in micro-batches, ZeRO 2": Variant(critic=True, budget=60, zero_stage=2),
    "critic chunked, ZeRO 3": Variant(critic=True, budget=60, zero_stage=3, chunk=640),
}
TWO = ("packed", "separate turns in micro-batches", "chunked logits", "recomputed layers", "ZeRO 1", "ZeRO 2",
       "ZeRO 3", "ZeRO 2 offload", "ZeRO 3 offload", "ZeRO 3 chunked, recomputed")  # fmt: skip


@pytest.fixture(scope="module")
def right() -> tuple[float, float]:
    """Every turn a row of a padded batch, plain autograd."""
    loss, gradient = padded_gradient(make_model(), *actions(merged=False))
    return loss, float(torch.cat([g.flatten() for g in gradient]).norm())


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, ...]]:
    """The variants of ``TWO``, ``BF16`` and ``CRITIC`` on two gloo processes."""
    out = tmp_path_factory.mktemp("two") / "found.json"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(__file__).with_name("learner_variants.py")
    variants = {name: ONE[name] for name in TWO} | BF16 | CRITIC
    command = [sys.executable, str(program), str(out), json.dumps(variants)]
    base = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    workers = [
        subprocess.Popen(command, env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    try:
        assert [worker.wait(timeout=800) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    found: dict[str, tuple[float, ...]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_the_padded_batch_has_something_to_show(right: tuple[float, float]) -> None:
    assert abs(right[0]) > 0.01
    assert right[1] > 0.1


@pytest.mark.parametrize("name", ONE)
def test_one_process(name: str, right: tuple[float, float]) -> None:
    assert measure(ONE[name]) == pytest.approx(right, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO)
def test_two_processes(name: str, right: tuple[float, float], two: dict[str, tuple[float, ...]]) -> None:
    assert two[name] == pytest.approx(right, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CRITIC)
def test_a_critic_on_two_processes_is_that_of_one(name: str, two: dict[str, tuple[float, ...]]) -> None:
    """What one process has to learn is held against a plain loop in ``test_ppo.py``."""
    right = measure(CRITIC["critic"])
    assert min(map(abs, right)) > 0.01
    assert right[-1] < 1
    assert measure(CRITIC[name]) == pytest.approx(right, rel=1e-4)
    assert two[name] == pytest.approx(right, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", BF16)
def test_bf16_is_near_on_one_process_and_on_two(
    name: str, right: tuple[float, float], two: dict[str, tuple[float, ...]]
) -> None:
    assert measure(BF16[name]) == pytest.approx(right, rel=0.05)
    assert two[name] == pytest.approx(right, rel=0.05)
