"""What only the vllm engine does: weights sent to another process, restarts, many adapters on one base."""

from __future__ import annotations

import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from engine_helpers import (
    disturb,
    make_model,
    make_request,
    make_requests,
    needs_vllm,
    plain_logprobs,
    vllm_config,
    worst_difference,
)
from mappa_rl.config import Config, Lora
from mappa_rl.engines.vllm.owner import is_running
from mappa_rl.engines.weights.base import MOST_TRANSFERS, named_weights
from mappa_rl.engines.weights.digest import combined, digest
from mappa_rl.errors import EngineError, EngineMemoryError

TOLERANCE = 1e-3
WAIT_S = 800.0


class Scene(NamedTuple):
    server: Any
    engine: Any
    model: Any


def start(folder: Path, config: Config | None = None, **options: Any) -> Any:
    from mappa_rl.engines.vllm.options import VLLMOptions
    from mappa_rl.engines.vllm.server import VLLMServer

    return VLLMServer(VLLMOptions(folder, config or vllm_config(), **options))


@pytest.fixture(scope="module", params=["tied", pytest.param("untied", marks=pytest.mark.large)])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    from mappa_rl.engines.vllm.engine import VLLMEngine

    folder = Path(tmp_path_factory.mktemp("model"))
    model = make_model(tied=request.param == "tied")
    model.save_pretrained(folder)
    server = start(folder)
    engine = VLLMEngine(server)
    yield Scene(server, engine, model)
    engine.close()


def process_of(server: Any) -> int:
    """The id of vLLM's EngineCore process."""
    (process,) = server._llm.engine_core.resources.engine_manager.processes
    return int(process.pid)


def held_by_trainer(model: Any, dtype: torch.dtype = torch.float32) -> dict[str, str]:
    """Digests of ``model`` under vLLM's names: queries, keys and values in one, gate and up in one."""
    state = {name: tensor.to(dtype) + 0.0 for name, tensor in model.state_dict().items()}
    fused = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
    for name in list(state):
        for whole, parts in fused.items():
            if f".{parts[0]}." in name:
                names = [name.replace(parts[0], part) for part in parts]
                state[name.replace(parts[0], whole)] = torch.cat([state.pop(part) for part in names])
    return {name: digest(tensor) for name, tensor in state.items()}


@needs_vllm
def test_several_updates_arrive_whole_in_few_transfers(scene: Scene) -> None:
    asked = make_requests()
    for seed in (1, 2, 3):
        other = make_model(seed, tied=scene.model.config.tie_word_embeddings)
        scene.engine.load_weights(other)
        stats, weights = scene.engine.last_sync, named_weights(other)
        whole = sum(tensor.nbytes for tensor in weights.values())
        assert whole <= stats.bytes <= 1.1 * whole
        assert 1 <= stats.transfers <= MOST_TRANSFERS
        assert stats.seconds > 0
        assert stats.checksum == combined({name: digest(tensor) for name, tensor in weights.items()})
        assert worst_difference(other, asked, scene.engine.generate(asked)) < TOLERANCE
        # What the worker computes with, read back through its layers, is the trainer's, bit for bit.
        (held,) = scene.server.workers("held_digests")
        assert held == held_by_trainer(other)


@needs_vllm
def test_the_worker_computes_with_the_weights_where_the_trainer_writes_them(scene: Scene) -> None:
    scene.engine.load_weights(scene.model)
    sender = scene.server._sender
    assert sender._in_place
    asked = make_requests(4)
    other = make_model(4, tied=scene.model.config.tie_word_embeddings)
    for name, tensor in named_weights(other).items():
        sender.kept[name].copy_(tensor)  # and nobody tells the worker
    assert worst_difference(other, asked, scene.engine.generate(asked)) < TOLERANCE


@needs_vllm
def test_memory_that_is_shared_has_no_name_to_outlive_killed_processes(scene: Scene) -> None:
    scene.engine.load_weights(scene.model)
    assert not Path("/dev/shm", scene.server._sender._segment.name).exists()


@needs_vllm
@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=pytest.mark.large)])
def test_packed_weights_are_loaded_and_packed_again(tied: bool, tmp_path: Path) -> None:
    """bf16, which vLLM computes with packed on a CPU."""
    from mappa_rl.engines.vllm.engine import VLLMEngine

    make_model(tied=tied).save_pretrained(tmp_path)
    server = start(tmp_path, vllm_config("engine.dtype=bf16"))
    engine = VLLMEngine(server)
    try:
        for seed in (1, 2):
            other = make_model(seed, tied=tied)
            engine.load_weights(other)
            assert not server._sender._in_place
            assert server.workers("held_digests") == [held_by_trainer(other, torch.bfloat16)]
            halves = {name: digest(w.bfloat16()) for name, w in named_weights(other).items()}
            assert engine.last_sync.checksum == combined(halves)
    finally:
        engine.close()


@needs_vllm
def test_requests_under_way_go_on_with_new_weights(scene: Scene) -> None:
    scene.engine.load_weights(scene.model, version=10)
    other = make_model(5, tied=scene.model.config.tie_word_embeddings)
    asked = [make_request((2, 3, 4 + k), k, 900) for k in range(8)]
    futures = [scene.engine.submit(request) for request in asked]
    time.sleep(0.3)
    scene.engine.load_weights(other, version=11)
    done = [future.result(timeout=WAIT_S) for future in futures]
    assert {g.version for g in done} <= {10, 11}
    for request, g in zip(asked, done, strict=True):
        found = np.array(g.logprobs)
        old, new = (
            np.abs(plain_logprobs(model, request, g.ids) - found) < TOLERANCE
            for model in (scene.model, other)
        )
        switch = int(np.argmin(old)) if not old.all() else len(found)
        assert new[switch:].all(), "after the switch, every token is scored by the new weights alone"
    after = scene.engine.generate(asked[:2])
    assert worst_difference(other, asked[:2], after) < TOLERANCE


@needs_vllm
def test_a_killed_engine_comes_back_with_its_weights_and_its_requests(scene: Scene) -> None:
    other = make_model(6, tied=scene.model.config.tie_word_embeddings)
    scene.engine.load_weights(other, version=20)
    asked = [make_request((2, 3, 4 + k), k, 900) for k in range(8)]
    wanted = scene.engine.generate(asked)
    futures = [scene.engine.submit(request) for request in asked]
    time.sleep(0.2)
    before = scene.server.restarts
    os.kill(process_of(scene.server), signal.SIGKILL)
    done = [future.result(timeout=WAIT_S) for future in futures]
    assert scene.server.restarts == before + 1
    assert [g.version for g in done] == [20] * len(asked)
    assert sum(a.ids != b.ids for a, b in zip(done, wanted, strict=True)) <= 1  # rounding
    assert worst_difference(other, asked, done) < TOLERANCE
    scene.engine.load_weights(scene.model)
    short = make_requests(8)
    assert worst_difference(scene.model, short, scene.engine.generate(short)) < TOLERANCE


@needs_vllm
def test_an_engine_that_dies_in_the_middle_of_an_update_gets_it_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request runs that would notice it, and vLLM leaves a call that is under way without an answer."""
    sender, before = scene.server._sender, scene.server.restarts
    newest = make_model(7, tied=scene.model.config.tie_word_embeddings)
    send = sender.send

    def deadly(weights: Any) -> Any:
        process = process_of(scene.server)
        os.kill(process, signal.SIGSTOP)
        threading.Timer(1, os.kill, (process, signal.SIGKILL)).start()
        monkeypatch.setattr(sender, "send", send)
        return send(weights)

    monkeypatch.setattr(sender, "send", deadly)
    scene.engine.load_weights(newest)
    assert scene.server.restarts == before + 1
    short = make_requests(4)
    assert worst_difference(newest, short, scene.engine.generate(short)) < TOLERANCE
    scene.engine.load_weights(scene.model)


@needs_vllm
def test_every_start_draws_from_another_random_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two policies, or a run before and after a restart, would sample with the same noise."""
    from mappa_rl.engines.vllm.options import VLLMOptions

    make_model().save_pretrained(tmp_path)
    states: list[int] = []
    monkeypatch.setattr(
        "vllm.v1.engine.async_llm.AsyncLLM.from_engine_args", lambda arguments: states.append(arguments.seed)
    )
    options = VLLMOptions(tmp_path, vllm_config())
    for _ in range(3):
        options.start()
    assert len(set(states)) == 3


@needs_vllm
def test_sleep_is_refused_without_a_gpu(scene: Scene) -> None:
    with pytest.raises(EngineError, match=r"engine\.sleep=true"):
        scene.engine.sleep()


@needs_vllm
def test_a_temperature_that_vllm_would_raise_is_refused(scene: Scene) -> None:
    with pytest.raises(EngineError, match=r"temperature=0\.001"):
        scene.engine.generate([make_request((2, 3), 0, 4, 0.001)])


@needs_vllm
def test_adapters_play_mixed_and_each_takes_its_own_updates(tmp_path: Path) -> None:
    from mappa_rl.engines.vllm.engine import AdapterEngine
    from mappa_rl.models.lora import adapted

    base = make_model()
    base.save_pretrained(tmp_path)
    server = start(tmp_path, vllm_config("lora.rank=4"), adapters=2)
    shape = Lora(rank=4, alpha=8, targets=["q_proj", "v_proj", "down_proj"])
    models = [adapted(base, shape, seed) for seed in range(2)]
    engines = [AdapterEngine(server, f"policy_{k}") for k in range(2)]
    try:
        assert engines[0].generate(make_requests(2))[0].version == 0  # before the first update: the base
        for round_ in range(4):
            for model, engine in zip(models, engines, strict=True):
                disturb(model, round_)
                engine.load_weights(model)
                assert engine.version == round_ + 1
                trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
                assert engine.last_sync.bytes == trained
                assert engine.last_sync.transfers == 1
            asked = make_requests(16)
            mixed = [[engine.submit(request) for engine in engines] for request in asked]
            for k, model in enumerate(models):
                done = [futures[k].result(timeout=WAIT_S) for futures in mixed]
                assert worst_difference(model, asked, done) < TOLERANCE
                assert {g.version for g in done} == {round_ + 1}
        assert [f[0].result().ids for f in mixed] != [f[1].result().ids for f in mixed]
        os.kill(process_of(server), signal.SIGKILL)
        for model, engine in zip(models, engines, strict=True):
            assert worst_difference(model, asked, engine.generate(asked)) < TOLERANCE
        assert server.restarts == 1
        with pytest.raises(EngineError, match="adapted module"):
            engines[0].load_weights(base)
        engines[0].close()  # the other one plays on
        assert worst_difference(models[1], asked, engines[1].generate(asked)) < TOLERANCE
    finally:
        for engine in engines:
            engine.close()


@needs_vllm
def test_an_engine_that_does_not_start_says_why_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from mappa_rl.engines.vllm.log import EngineLog

    monkeypatch.setenv("WANDB_API_KEY", "a-key-that-nobody-may-read")
    make_model().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    log = tmp_path / "logs" / "engine.log"
    capfd.readouterr()
    with pytest.raises(EngineError) as caught:
        start(tmp_path, log=EngineLog(log))
    first, *rest = str(caught.value).splitlines()
    assert first.endswith(f"Its log, {log}, ends with")
    assert "SafetensorError" in "".join(rest)
    assert capfd.readouterr() == ("", "")
    written = log.read_text()
    assert written.startswith("--- ")
    assert f"vLLM starts on {tmp_path}" in written.splitlines()[0]
    assert "a-key-that" not in written
    assert os.fsdecode(multiprocessing.spawn.get_executable()) == sys.executable


@needs_vllm
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.large)])
def test_a_cache_without_room_for_one_text_names_what_to_raise(tmp_path: Path, workers: int) -> None:
    """In this process, and in processes of its own, whose reason is in the log alone."""
    from mappa_rl.engines.vllm.log import EngineLog

    make_model(layers=8).save_pretrained(tmp_path)
    small = vllm_config("engine.kv_cache_mb=1", f"engine.tensor_parallel={workers}")
    with pytest.raises(EngineMemoryError) as caught:
        start(tmp_path, small, log=EngineLog(tmp_path / "engine.log"))
    said = str(caught.value)
    assert said.startswith("vLLM did not start: its key-value cache has no room for a text of")
    assert "rollout.max_context=1024 tokens (" in said
    assert said.endswith("raise engine.kv_cache_mb=1")
    assert "\n" not in said


@needs_vllm
def test_an_engine_that_dies_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Death is feigned: what stands for vLLM here raises its error for a dead engine at once."""
    from mappa_rl.engines.vllm import options, server
    from mappa_rl.engines.vllm.engine import VLLMEngine

    class Dead:
        errored = True
        output_handler = None

        async def generate(self, *_: Any, **__: Any) -> Any:
            raise options.VLLMOptions(tmp_path, vllm_config()).dead_error
            yield

        def shutdown(self, timeout: float | None = None) -> None:
            pass

    starts: list[Any] = []
    monkeypatch.setattr(options.VLLMOptions, "start", lambda self: starts.append(self) or Dead())
    monkeypatch.setattr(server, "BACKOFF_S", 0.001)
    make_model().save_pretrained(tmp_path)
    engine = VLLMEngine(start(tmp_path))
    for _ in range(2):
        with pytest.raises(EngineError, match=r"died 4 times in a row.*engine\.kv_cache_mb"):
            engine.generate(make_requests(3))
    assert len(starts) == 1 + server.RESTARTS
    engine.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from mappa_rl.engines.vllm.engine import VLLMEngine
from mappa_rl.engines.vllm.options import VLLMOptions
from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.config import load_config
import psutil

if __name__ == "__main__":
    config = load_config("demo", ["engine.name=vllm", "engine.kv_cache_mb=16"])
    engine = VLLMEngine(VLLMServer(VLLMOptions(Path(sys.argv[1]), config)))
    print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_vllm
def test_an_engine_ends_with_the_run_that_started_it(tmp_path: Path) -> None:
    make_model().save_pretrained(tmp_path / "model")
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    done = subprocess.run([sys.executable, program, tmp_path / "model"], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert pids
    until = time.monotonic() + WAIT_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < until, "an engine goes on without its run"
        time.sleep(0.2)
