"""The processes of one run on a cluster: the leader here, its followers in actors."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from mappa_rl.cluster.actors import VERDICT_S, answer
from mappa_rl.cluster.group import Group
from mappa_rl.cluster.network import held_port, place_among
from mappa_rl.cluster.session import NAMESPACE, connect
from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.commands.console import say
from mappa_rl.commands.ending import end_tree
from mappa_rl.config import Config
from mappa_rl.errors import ActorLost, MappaRLError, RunError
from mappa_rl.memory import is_out_of_memory
from mappa_rl.stopping import signal_of
from mappa_rl.training.follower import Follower
from mappa_rl.training.worker import HELD, LOST

LEADER = (sys.executable, "-m", "mappa_rl.training.worker")
_POLL_S = 0.5


def lead(config: Config, out: Path, console: Console) -> None:
    """Finish the run in ``out``, whose warm start is made, in the processes of its crews.

    The leader is a child of this process; the others are actors. When an actor or its node dies, or a signal
    that nobody here has sent ends the leader, all of them start again from the last checkpoint: at most
    ``cluster.restarts`` times without a newer checkpoint. Any other end of the leader is final.

    Raises RunError, and ClusterError if the actors cannot be placed.
    """
    tries, saved = 0, newest_step(out)
    while (lost := _attempt(config, out)) is not None:
        newest = newest_step(out)
        tries = 1 if newest > saved else tries + 1
        saved = newest
        if tries > config.cluster.restarts:
            raise RunError(
                f"{lost}, {tries} times without a new checkpoint, of which cluster.restarts="
                f"{config.cluster.restarts} are allowed. Resume the run with `mappa-rl train --resume {out}`."
            )
        say(console, f"{lost.rstrip('.')}: all processes start again from step {newest}")


def _attempt(config: Config, out: Path) -> str | None:
    """Start all processes and wait for them; returns which of them was lost, None if the run is finished."""
    ray, count = connect(config.cluster), config.run.processes
    address = ray.util.get_node_ip_address()
    room: Group | None = None
    process: subprocess.Popen[bytes] | None = None
    actors: list[Any] = []
    try:
        if count > 1:
            room = _room(config)
            actors = room.start(Follower, lambda number: f"learner-{number + 1}", max_concurrency=2)
        context = ray.get_runtime_context()
        own = {"RAY_ADDRESS": context.gcs_address, NAMESPACE: context.namespace}
        own |= place_among(0, count, address)
        with held_port(address) as held:
            meet, sockets = held.getsockname(), []
            if count > 1:
                own["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
                own[HELD], sockets = str(held.fileno()), [held.fileno()]
            process = subprocess.Popen(
                [*LEADER, str(out)], env={**os.environ, **own}, pass_fds=sockets, process_group=0
            )
        following = [actor.follow.remote(out.resolve(), rank, meet) for rank, actor in enumerate(actors, 1)]
        return _watched(process, following, out)
    except ActorLost as lost:  # before it was placed
        return str(lost)
    except KeyboardInterrupt as stop:
        if process is not None:
            end_tree(process, signal_of(stop))
        raise
    finally:
        if process is not None and process.poll() is None:
            end_tree(process, None)
        if room is not None:
            room.close()


def _room(config: Config) -> Group:
    """Room for the learner's processes but the one that leads."""
    import torch

    count, each = config.run.processes - 1, config.cluster.learner_wish(torch.cuda.is_available())
    return Group(f"learner-{f'1 to {count}' if count > 1 else 1}", count, each, config.cluster.placement_s)


def _watched(process: subprocess.Popen[bytes], following: Sequence[Any], out: Path) -> str | None:
    """Wait until the leader ends. Returns who was lost before, None if it ended well.

    When a process dies, those it was connected to fail, often before Ray knows of the death. So a failure
    counts once all others have ended too, or ``VERDICT_S`` later, and nobody is lost.
    """
    # Ray's own wait would make SIGTERM a Ctrl-C
    left = [(f"learner-{rank}", each, each.future()) for rank, each in enumerate(following, 1)]
    failure: tuple[str, Exception] | None = None
    until = math.inf
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
        for name, each, _ in [entry for entry in left if entry[2].done()]:
            try:
                answer(each, name)  # one that was released has nothing to say
            except ActorLost as lost:
                return str(lost)
            except Exception as error:
                if isinstance(error, MappaRLError) or is_out_of_memory(error):
                    raise  # no other's death leads to that
                failure = failure or (name, error)
        left = [entry for entry in left if not entry[2].done()]
        code = process.poll()
        if code == 0:
            return None
        if code is not None and code < 0:
            return f"the process that leads was ended by signal {-code}"
        if code == LOST:
            return "the process that leads has lost a crew"
        if code is not None or failure:
            until = min(until, time.monotonic() + VERDICT_S)
        if time.monotonic() >= until or (code is not None and not left):
            break
        if code is not None:
            time.sleep(_POLL_S)
    also = f" {failure[0]} failed with {type(failure[1]).__name__}: {failure[1]}." if failure else ""
    who = f"a process of the run in {out} failed" if code is None else f"the process that leads {out} failed"
    raise RunError(
        f"{who}; the lines above say why.{also} Resume it with `mappa-rl train --resume {out}`."
    ) from (failure[1] if failure else None)
