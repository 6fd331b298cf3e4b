"""How close the parts of a training step come to what lies under them, with a real model on a CPU.

SmolLM2-135M-Instruct in fp32 (``make llm``), one thread a process. Every part takes turns with its floor:

    generation      the vllm engine, as training asks it, against vLLM's own ``LLM.generate`` on the same
                    prompts with the same sampling parameters, in a process of its own; both run eagerly
    ... with seeds  other prompts, with a seed per request, as evaluations ask
    update          ``Learner.step`` against forward and backward pass of the same packs (``learner.py``)
    weight sync     ``load_weights`` until digests are compared, against plain copies of the same bytes
    rollouts        SIMULATED latencies: ``AsyncRollout`` against the critical path (``rollout_overlap.py``)

Figures are medians; the ratio is the median of those of the turns, and the first turn is not counted. Seconds
are wall time, except for updates: processor time. Loss and gradient norm of both sides of an update must
agree, and engines must return the tokens that they were asked for.

    python benchmarks/real_speed.py [--quick] [--model DIR] [--json PATH]
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import weight_sync
from learner import floor, ours
from learner_rollouts import action_lengths, make_rollouts
from rich.console import Console
from rich.table import Table
from rollout_overlap import SAMPLING, World, critical_path_s, waits

from mappa_rl.config import Config, load_config
from mappa_rl.engines.base import Request
from mappa_rl.engines.vllm.engine import VLLMEngine
from mappa_rl.engines.vllm.log import EngineLog
from mappa_rl.engines.vllm.options import VLLMOptions, engine_environment, import_vllm
from mappa_rl.engines.vllm.server import VLLMServer
from mappa_rl.engines.weights.base import named_weights
from mappa_rl.models.loading import load_model
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.types import Job

PROMPT = 64  # tokens
MAX_LEN = 512
CACHE_MB = 2048
SPEED, COST, LATE = 0.9, 1.2, 1.1  # least of the floor's speed; most of its time, of the critical path


class Sizes(NamedTuple):
    """``requests`` of ``reply`` tokens; ``samples`` of up to ``longest`` tokens; ``scale`` of latencies."""

    repeats: int
    requests: int
    reply: int
    samples: int
    longest: int
    episodes: int
    scale: float


WHOLE = Sizes(repeats=5, requests=32, reply=64, samples=16, longest=256, episodes=64, scale=1.0)
QUICK = Sizes(repeats=1, requests=4, reply=8, samples=8, longest=32, episodes=8, scale=0.05)


@dataclass(frozen=True)
class Part:
    """``ours`` and ``floor``: seconds of each turn. ``target``: of the ratio; None: it is only measured."""

    name: str
    ours: list[float]
    floor: list[float]
    target: float | None
    is_speed: bool = True

    @property
    def ratio(self) -> float:
        """Our speed as a part of the floor's, or our time as a multiple of the floor's."""
        pairs = zip(self.ours, self.floor, strict=True)
        return statistics.median(theirs / mine if self.is_speed else mine / theirs for mine, theirs in pairs)

    @property
    def holds(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio >= self.target if self.is_speed else self.ratio <= self.target


def config_for(sizes: Sizes) -> Config:
    lengths = [f"model.max_len={MAX_LEN}", f"rollout.max_context={MAX_LEN}"]
    room = [f"engine.kv_cache_mb={CACHE_MB}", f"engine.max_num_seqs={max(8, sizes.requests)}"]
    return load_config("demo", ["engine.name=vllm", *room, *lengths])


def served(folder: Path, sizes: Sizes) -> list[Part]:
    """Generation and weight sync, with the model in ``folder``."""
    import_vllm()
    config, model = config_for(sizes), load_model(folder, "fp32").eval()
    weights = named_weights(model)
    own = {name: tensor.clone() for name, tensor in weights.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ("none", "seeded", "vllm", "sync", "copy")}
    with tempfile.TemporaryDirectory() as logs:
        options = VLLMOptions(folder, config, log=EngineLog(Path(logs) / "engine.log"))
        engine = VLLMEngine(VLLMServer(options))
        try:
            with offline(folder, config, options) as generate:
                for turn in range(sizes.repeats + 1):
                    asked, others = (requests(2 * turn + k, model.config.vocab_size, sizes) for k in range(2))
                    seeded = [dataclasses.replace(request, seed=k) for k, request in enumerate(others)]
                    seconds["none"].append(timed(engine, asked))
                    seconds["vllm"].append(generate(asked))
                    seconds["seeded"].append(timed(engine, seeded))
            for turn in range(sizes.repeats + 1):
                weight_sync.change(model, turn)
                began = time.perf_counter()
                for name, tensor in weights.items():
                    own[name].copy_(tensor)
                copied = time.perf_counter()
                engine.load_weights(model)
                seconds["copy"].append(copied - began)
                seconds["sync"].append(time.perf_counter() - copied)
        finally:
            engine.close()
    counted = {name: found[1:] for name, found in seconds.items()}
    return [
        Part("generation", counted["none"], counted["vllm"], SPEED),
        Part("generation, with seeds", counted["seeded"], counted["vllm"], None),
        Part("weight sync", counted["sync"], counted["copy"], COST, is_speed=False),
    ]


def requests(number: int, vocabulary: int, sizes: Sizes) -> list[Request]:
    """Random prompts, others for every ``number``: no engine has them in its cache."""
    rng = np.random.default_rng(number)
    prompts = rng.integers(0, vocabulary, (sizes.requests, PROMPT)).tolist()
    return [Request(tuple(ids), None, sizes.reply, 1.0, (), 1.0) for ids in prompts]


def timed(engine: VLLMEngine, asked: Sequence[Request]) -> float:
    began = time.perf_counter()
    done = engine.generate(asked)
    spent = time.perf_counter() - began
    _check_lengths(asked, [len(each.ids) for each in done])
    return spent


@contextmanager
def offline(
    folder: Path, config: Config, options: VLLMOptions
) -> Iterator[Callable[[Sequence[Request]], float]]:
    """Seconds of vLLM's ``LLM.generate`` on requests, in a process with the environment of our engine's."""
    spawned = multiprocessing.get_context("spawn")
    here, there = spawned.Pipe()
    process = spawned.Process(target=_offline, args=(folder, config, there), daemon=True)
    with engine_environment(options, {}):
        process.start()
    there.close()
    here.recv()  # it is ready

    def generate(asked: Sequence[Request]) -> float:
        here.send(asked)
        spent, lengths = here.recv()
        _check_lengths(asked, lengths)
        return float(spent)

    try:
        yield generate
    finally:
        here.send(None)
        process.join()


def _offline(folder: Path, config: Config, pipe: Connection) -> None:
    torch.set_num_threads(1)
    import_vllm()
    from vllm import LLM

    options = VLLMOptions(folder, config)
    llm = LLM(
        model=str(folder),
        dtype="float32",
        max_model_len=MAX_LEN,
        max_num_seqs=config.engine.max_num_seqs,
        kv_cache_memory_bytes=CACHE_MB * 2**20,
        skip_tokenizer_init=True,
        logprobs_mode="processed_logprobs",
        enforce_eager=True,
        distributed_executor_backend="uni",  # as our engine: the worker is in this process
        use_tqdm_on_load=False,
    )
    pipe.send("ready")
    while (asked := pipe.recv()) is not None:
        prompts: Any = [{"prompt_token_ids": list(request.ids)} for request in asked]
        sampling = [options.sampling(request, request.max_tokens) for request in asked]
        began = time.perf_counter()
        done = llm.generate(prompts, sampling, use_tqdm=False)
        spent = time.perf_counter() - began
        pipe.send((spent, [len(each.outputs[0].token_ids) for each in done]))


def _check_lengths(asked: Sequence[Request], lengths: Sequence[int]) -> None:
    if list(lengths) != [request.max_tokens for request in asked]:
        sys.exit(f"an engine returned replies of {lengths} tokens")


def updated(folder: Path, sizes: Sizes) -> Part:
    """Optimizer steps of the model in ``folder``; the learning rate is 0, so all see the same weights."""
    model = load_model(folder, "fp32").eval()
    rollouts = make_rollouts(model, action_lengths("long-tailed", sizes.samples, sizes.longest))
    ways = {"ours": ours(copy.deepcopy(model), rollouts), "floor": floor(model, rollouts)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(sizes.repeats + 1):
        found = {name: step() for name, step in ways.items()}
        same = math.isclose(found["ours"].norm, found["floor"].norm, rel_tol=1e-3)
        if not (same and abs(found["ours"].loss - found["floor"].loss) < 1e-3):
            sys.exit(f"the updates differ: {found}")
        for name, outcome in found.items() if turn else ():
            seconds[name].append(outcome.seconds)
    return Part("update", seconds["ours"], seconds["floor"], SPEED)


def played(sizes: Sizes) -> Part:
    """Rollouts whose engine, sandbox and coach only wait."""
    world = World("mappa/MathChat-v0", sizes.scale)
    jobs = [Job(seed) for seed in range(sizes.episodes)]
    seconds, paths = [], []
    with AsyncRollout(world.env, world.policies, in_flight=len(jobs), max_episode_s=0.0, retries=0) as worker:
        worker.collect([Job(10**6 + job.seed) for job in jobs], SAMPLING)  # makes the environments
        for _ in range(sizes.repeats):
            done = worker.collect(jobs, SAMPLING)
            seconds.append(done.seconds.total)
            paths.append(critical_path_s(waits(done, sizes.scale)))
    return Part("rollouts, SIMULATED", seconds, paths, LATE, is_speed=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tiny random model and one turn")
    parser.add_argument(
        "--model", type=Path, default=Path("models/SmolLM2-135M-Instruct"), help="default: %(default)s"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    args = parser.parse_args()
    sizes = QUICK if args.quick else WHOLE
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.model
        if args.quick:
            folder = Path(scratch)
            weight_sync.make("tiny").save_pretrained(folder)
        elif not (folder / "config.json").is_file():
            parser.error(f"{folder} holds no model: `make llm` makes one")
        parts = [*served(folder, sizes), updated(folder, sizes), played(sizes)]
    show(parts, "a tiny random model" if args.quick else folder.name, sizes)
    if args.json:
        rows = [{**dataclasses.asdict(part), "ratio": part.ratio, "holds": part.holds} for part in parts]
        facts = {"model": folder.name, "sizes": sizes._asdict(), "torch": torch.__version__, "parts": rows}
        args.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def show(parts: Sequence[Part], model: str, sizes: Sizes) -> None:
    table = Table(title=f"{model}, fp32, one thread a process; medians of {sizes.repeats}")
    for column in ("", "ours, s", "floor, s", "ratio", "target", "holds"):
        table.add_column(column, justify="right" if column else "left")
    for part in parts:
        sign, unit = (">=", "of the speed") if part.is_speed else ("<=", "of the time")
        table.add_row(
            part.name,
            f"{statistics.median(part.ours):.4f}",
            f"{statistics.median(part.floor):.4f}",
            f"{part.ratio:.2f} {unit}",
            "-" if part.target is None else f"{sign} {part.target}",
            {None: "-", True: "yes", False: "NO"}[part.holds],
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
