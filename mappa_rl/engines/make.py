"""Makes the engines of a run from the ``engine`` and ``rollout`` sections of its config."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mappa_rl.config import Config
from mappa_rl.config import Engine as Section
from mappa_rl.engines.base import Engine
from mappa_rl.engines.hf.engine import copied_engines, shared_engines
from mappa_rl.engines.vllm.log import EngineLog
from mappa_rl.engines.vllm.options import VLLMOptions, import_vllm, on_cpu
from mappa_rl.errors import EngineError
from mappa_rl.futures import in_background

LOGS = "logs"


def make_engines(
    config: Config, models: Mapping[str, Any], folders: Mapping[str, Path], lora: bool
) -> dict[str, Engine]:
    """Make one engine per policy in ``models``, which started as the models in ``folders``.

    An engine that does not share its model's weights has those of the folder until they are sent. ``lora``:
    the models are adapters on frozen bases. Raises ``EngineError``.
    """
    if config.engine.name == "vllm":
        return _vllm_engines(config, {name: folders[name] for name in models}, lora)
    return copied_engines(models) if config.is_async else shared_engines(models)


def check_engine(config: Config) -> None:
    """Raise ``EngineError`` if this machine cannot run the configured engine."""
    if config.engine.name != "vllm":
        return
    import_vllm()
    engine = config.engine
    dtype = config.optim.dtype if engine.dtype == "learner" else engine.dtype
    if config.policies.map == "lora" and dtype == "fp32" and not on_cpu():
        raise EngineError(
            "policies.map=lora: on a GPU vLLM multiplies adapters in half precision only, but the engine's "
            "weights would be fp32. Use engine.dtype=bf16."
        )
    if config.cluster.name == "ray":  # other machines run it, and have a GPU for each of its workers
        return
    own = {f"placement.engines.{name}": config.engine_of(name) for name in config.placement.engines}
    for key, each in {"engine": engine, **own}.items():
        if on_cpu():
            unusable = [option for option in ("sleep", "devices") if getattr(each, option)]
            if unusable:
                raise EngineError(
                    f"{key}.{unusable[0]} needs GPUs, but vLLM runs on the CPU here; remove it."
                )
        elif why := unplaced(key, each):
            raise EngineError(why)


def unplaced(key: str, engine: Section) -> str:
    """Why an engine with the section ``key`` needs GPUs of its own; empty: it has some, or needs none."""
    if engine.devices:
        return ""
    if engine.tensor_parallel > 1:
        return (
            f"{key}.tensor_parallel={engine.tensor_parallel} needs GPUs other than the learner's: list "
            f"them in {key}.devices."
        )
    if engine.replicas > 1:
        return (
            f"{key}.replicas={engine.replicas} needs a GPU for each replica, other than the learner's: list "
            f"them in {key}.devices."
        )
    return ""


def _vllm_engines(config: Config, folders: Mapping[str, Path], lora: bool) -> dict[str, Engine]:
    """Adapters share one server on each base; other policies get one server each.

    Servers on the same GPU divide its memory; on a cluster, each is alone on what Ray gives it. Each server
    has as many replicas as ``placement.engines`` or ``engine`` says. They start side by side; their processes
    write to ``logs`` in the run's folder. If one fails, the others are closed. An interrupt ends what has
    begun.
    """
    check_engine(config)
    remote = config.cluster.name == "ray"
    if remote:
        from mappa_rl.cluster.session import connect

        connect(config.cluster)  # on this thread: Ray must not take its signals
    bases = list(dict.fromkeys(folders.values()))
    shared = {folder: f"adapters-{number}" if number else "adapters" for number, folder in enumerate(bases)}
    owner = {name: shared[folder] if lora else name for name, folder in folders.items()}
    direct = sent_directly(config, lora)
    places = {owner[name]: folder for name, folder in folders.items()}

    members = {server: [name for name, each in owner.items() if each == server] for server in places}
    engines = {server: config.engine_of(server) for server in places}
    started = [
        (s, r)
        for r in range(max(e.replicas for e in engines.values()))
        for s in places
        if r < engines[s].replicas
    ]
    devices = {(server, replica): engines[server].devices_of(replica) for server, replica in started}
    options = {
        (server, replica): VLLMOptions(
            places[server],
            config.model_copy(update={"engine": engines[server]}),
            1 if remote else sharing(devices[server, replica], devices.values()),
            len(members[server]) if lora else 0,
            _log(config, f"{server}-{replica}" if replica else server),
            replica,
            direct,
        )
        for server, replica in started
    }

    starting: list[Future[Mapping[str, Engine]]] = []
    try:
        for (server, _), each in options.items():
            starting.append(in_background(partial(_start, each, members[server])))  # an interrupt keeps these
        wait(starting)
        for future in starting:
            future.result()
    except BaseException:
        for each in options.values():
            each.halted.set()
        wait(starting)
        for future in starting:
            for engine in () if future.exception() else future.result().values():
                engine.close()
        raise
    found: dict[str, list[Engine]] = {}
    for future in starting:
        for name, engine in future.result().items():
            found.setdefault(name, []).append(engine)
    return {name: _joined(same) for name, same in found.items()}


def sent_directly(config: Config, lora: bool) -> bool:
    """Whether a cluster's engines get weights from this process's GPU: whole ones, and all have GPUs."""
    return config.cluster.name == "ray" and not lora and not on_cpu() and torch.cuda.is_available()


def sharing(own: Sequence[int], all_devices: Collection[Sequence[int]]) -> int:
    """How many engines use the same GPU, where most do; none named: the learner's, or a CPU's memory."""
    if not own:
        return sum(not each for each in all_devices)
    return max(sum(device in each for each in all_devices) for device in own)


def _start(options: VLLMOptions, names: Sequence[str]) -> Mapping[str, Engine]:
    """The engines of the policies ``names`` on a server of their own, which ends with the last of them."""
    if options.config.cluster.name == "ray":
        from mappa_rl.engines.ray.client import RayEngine
        from mappa_rl.engines.ray.server import RayServer

        remote = RayServer(options, names)
        return {name: RayEngine(remote, name) for name in names}
    from mappa_rl.engines.vllm.engine import engines_on
    from mappa_rl.engines.vllm.server import VLLMServer

    return engines_on(VLLMServer(options), names)


def _joined(same: Sequence[Engine]) -> Engine:
    """One engine of all replicas of a policy."""
    from mappa_rl.engines.ray.client import RayEngine
    from mappa_rl.engines.replicas import ReplicatedEngine

    first = same[0]
    if len(same) == 1:
        return first
    return ReplicatedEngine(same, first.shared if isinstance(first, RayEngine) and not first.direct else None)


def _log(config: Config, name: str) -> EngineLog:
    """The log file in the run's folder, if the config names a folder."""
    return EngineLog(Path(config.run.out) / LOGS / f"engine-{name}.log" if config.run.out else None)
