"""Which engines a config gets, and what they read from it."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from engine_helpers import MAX_LEN, make_model, vllm_config
from mappa_rl.config import load_config
from mappa_rl.engines.hf.engine import HFEngine
from mappa_rl.engines.make import check_engine, make_engines, sent_directly
from mappa_rl.engines.vllm.options import VLLMOptions, engine_environment
from mappa_rl.engines.vllm.owner import is_running
from mappa_rl.errors import ConfigError, EngineError
from mappa_rl.stopping import SIGNALS, Stopping


@pytest.mark.parametrize(("schedule", "shared"), [("lockstep", True), ("async", False)])
def test_the_hf_engine_copies_weights_only_if_it_generates_while_they_train(
    schedule: str, shared: bool
) -> None:
    models = {"solver": make_model(0), "coder": make_model(1)}
    config, folders = load_config("demo", [f"rollout.schedule={schedule}"]), dict.fromkeys(models, Path())
    engines = make_engines(config, models, folders, lora=False)
    assert engines.keys() == models.keys()
    for name, engine in engines.items():
        assert isinstance(engine, HFEngine)
        assert (engine.model is models[name]) == shared


def test_a_vllm_engine_takes_lengths_and_precision_from_the_config() -> None:
    options = VLLMOptions(Path(), vllm_config())
    assert (options.max_len, options.torch_dtype) == (MAX_LEN, torch.float32)
    trained_in_bf16 = ["optim.dtype=bf16", "optim.zero_stage=2"]
    assert VLLMOptions(Path(), vllm_config(*trained_in_bf16)).torch_dtype == torch.bfloat16
    mixed = vllm_config(*trained_in_bf16, "engine.dtype=fp32")
    assert VLLMOptions(Path(), mixed).torch_dtype == torch.float32


@pytest.mark.parametrize(
    ("cpu", "override", "message"),
    [
        (True, "engine.sleep=true", "engine.sleep needs GPUs"),
        (True, "engine.devices=[0]", "engine.devices needs GPUs"),
        (False, "engine.tensor_parallel=2", "list them in engine.devices"),
        (False, "engine.replicas=2", "needs a GPU for each replica"),
    ],
)
def test_an_engine_that_this_machine_cannot_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, cpu: bool, override: str, message: str
) -> None:
    monkeypatch.setattr("mappa_rl.engines.make.import_vllm", lambda: None)
    monkeypatch.setattr("mappa_rl.engines.make.on_cpu", lambda: cpu)
    with pytest.raises(EngineError, match=message):
        check_engine(vllm_config(override))


@pytest.mark.parametrize("cluster", ["local", "ray"])
def test_adapters_on_a_gpu_need_half_precision(monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    """vLLM 0.32 asserts it while it warms up its kernels, after a minute and in another process."""
    monkeypatch.setattr("mappa_rl.engines.make.import_vllm", lambda: None)
    config = ("policies.map=lora", f"cluster.name={cluster}")
    monkeypatch.setattr("mappa_rl.engines.make.on_cpu", lambda: True)
    check_engine(vllm_config(*config))  # a CPU has no such limit
    monkeypatch.setattr("mappa_rl.engines.make.on_cpu", lambda: False)
    check_engine(vllm_config(*config, "engine.dtype=bf16"))
    with pytest.raises(EngineError, match=r"would be fp32\. Use engine\.dtype=bf16"):
        check_engine(vllm_config(*config))


@pytest.mark.parametrize(
    ("cluster", "lora", "cpu", "own_gpu", "direct"),
    [
        ("ray", False, False, True, True),
        ("local", False, False, True, False),
        ("ray", True, False, True, False),  # adapters are files
        ("ray", False, True, True, False),
        ("ray", False, False, False, False),  # a process that trains nothing may have no GPU
    ],
)
def test_whole_weights_go_from_gpu_to_gpu_where_both_sides_have_one(
    cluster: str, lora: bool, cpu: bool, own_gpu: bool, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mappa_rl.engines.make.on_cpu", lambda: cpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: own_gpu)
    assert sent_directly(vllm_config(f"cluster.name={cluster}"), lora) == direct


def test_engines_do_not_learn_what_a_launcher_tells_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun's variables, as torch.distributed.run 2.13 sets them for a worker."""
    variables = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "0",
        "ROLE_RANK": "0",
        "ROLE_NAME": "default",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": "2",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "x",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_ERROR_FILE": "/x",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WORLD_CUP", "2026")
    before = dict(os.environ)
    with engine_environment(VLLMOptions(Path(), vllm_config()), {"EXTRA": "1"}):
        inherited = dict(os.environ)
    assert not variables.keys() & inherited.keys()
    assert (inherited["EXTRA"], inherited["WORLD_CUP"]) == ("1", "2026")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [(None, "1,2"), ("4,5,6,7", "5,6"), ("GPU-a, GPU-b,GPU-c", "GPU-b,GPU-c")],
)
def test_devices_count_among_the_gpus_that_this_process_sees(
    visible: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    config = vllm_config("engine.devices=[1, 2]", "engine.tensor_parallel=2")
    with engine_environment(VLLMOptions(Path(), config), {}):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == wanted


@pytest.mark.parametrize("begun", [1, 3])
@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupt_ends_the_engines_that_start_side_by_side(
    number: signal.Signals, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that never answer stand in for vLLM's."""
    monkeypatch.setattr("mappa_rl.engines.make.check_engine", lambda config: None)
    monkeypatch.setattr("mappa_rl.engines.vllm.server.import_vllm", lambda: None)
    monkeypatch.setattr("mappa_rl.engines.vllm.options.on_cpu", lambda: True)
    monkeypatch.setattr(VLLMOptions, "sender", lambda options, address: None)
    made: list[BaseProcess] = []

    def make(options: VLLMOptions, logging_config: str | None) -> None:
        if len(made) == begun:
            time.sleep(1)  # the signal comes meanwhile
        process = get_context("spawn").Process(target=time.sleep, args=(600,))
        made.append(process)
        process.start()
        if len(made) == begun:
            os.kill(os.getpid(), number)
        process.join()
        raise RuntimeError("the engine died")

    monkeypatch.setattr(VLLMOptions, "_make", make)
    models = dict.fromkeys(("solver", "coder", "verifier"))
    with Stopping(), pytest.raises(KeyboardInterrupt):
        make_engines(vllm_config(), models, {name: Path(name) for name in models}, lora=False)
    assert len(made) >= begun
    until = time.monotonic() + 20
    while left := [process.pid for process in made if process.pid and is_running(process.pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("override", "remedy"),
    [("engine.devices=[1]", "Use engine.devices="), ("engine.sleep=true", "Use engine.sleep=false")],
)
def test_on_a_cluster_engines_have_gpus_that_ray_chooses(override: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        vllm_config("cluster=ray", override)


def test_on_a_cluster_engines_need_nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mappa_rl.engines.make.import_vllm", lambda: None)
    monkeypatch.setattr("mappa_rl.engines.vllm.options.on_cpu", lambda: False)
    config = vllm_config("cluster=ray", "engine.tensor_parallel=2", "engine.replicas=2")
    check_engine(config)
    assert VLLMOptions(Path(), config).backend == "shm"
