"""A head of a run's own: reached with its token alone, gone after the run; what ``status`` says meanwhile."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from mappa_rl.cli import main
from mappa_rl.cluster import session
from mappa_rl.cluster.network import held_port
from mappa_rl.cluster.session import RECORD, join
from mappa_rl.commands import status
from mappa_rl.commands.checkpoint import newest_step
from mappa_rl.errors import ClusterError
from ray_cluster import alone
from tiny_run import TINY

CLI = (sys.executable, "-m", "mappa_rl.cli")
LIMIT_S = 90.0
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Without it Ray would ask this machine's other address."""


def started(out: Path, *overrides: str) -> subprocess.Popen[str]:
    words = [*CLI, "train", "demo", *TINY, "cluster=ray", "cluster.env_cpus=0.5", f"out={out}", *overrides]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def until_step(process: subprocess.Popen[str], step: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().startswith(f"{step}/") and "reward" in line:
            return
    raise AssertionError("the run ended before")


def asked(run: Path) -> str:
    wide = {**os.environ, "COLUMNS": "200"}
    found = subprocess.run(
        [*CLI, "status", str(run)], env=wide, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def listening(pid: int) -> dict[str, set[str]]:
    """Process of a run -> the addresses that it listens on."""
    found: dict[str, set[str]] = {}
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            name, sockets = process.name(), process.net_connections("inet")
            for each in sockets:
                if each.status == psutil.CONN_LISTEN:
                    found.setdefault(name, set()).add(each.laddr.ip)
    return found


def is_loopback(address: str) -> bool:
    found = ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


@pytest.mark.slow
def test_a_run_says_who_does_what_and_stops_with_a_checkpoint(tmp_path: Path) -> None:
    with alone():
        _stops_with_a_checkpoint(tmp_path / "run")


def _stops_with_a_checkpoint(out: Path) -> None:
    process = started(out, "run.steps=500", "run.checkpoint_every=0")
    try:
        until_step(process, 1)
        record = json.loads((out / RECORD).read_text())
        assert stat.S_IMODE((out / RECORD).stat().st_mode) == 0o600
        heard = listening(process.pid)
        assert any("gcs_server" in name for name in heard)
        assert all(map(is_loopback, set.union(*heard.values()))), heard
        said = asked(out)
        assert f"at work: process {process.pid} on" in said
        assert "environments-0" in said
        assert "in the sandbox, " in said, said
        assert "plays the episodes, trains solver_0, coder_0, verifier_0" in said, said
        stranger = subprocess.run(
            [sys.executable, "-c", f"import ray; ray.init({record['address']!r})"],
            env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64, **LOOPBACK},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert stranger.returncode != 0
        assert "uthentication" in stranger.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 143
    finally:
        process.kill()
    assert newest_step(out) > 0
    assert not (out / RECORD).exists()
    said = asked(out)
    assert "stopped; resume it with" in said
    assert "on the cluster" not in said
    assert record["token"] not in "".join(
        path.read_text(errors="replace") for path in out.rglob("*") if path.is_file() and path.suffix != ".gz"
    )


def test_the_token_of_a_users_cluster_is_not_written(tmp_path: Path) -> None:
    """Nor is it needed: who asks for the status has it, as the run had."""
    program = f"""
import json
from mappa_rl.cluster.session import joined
from mappa_rl.config import Cluster
from pathlib import Path
with joined(Cluster(name="ray"), Path({str(tmp_path)!r})):
    print(json.loads(Path({str(tmp_path / RECORD)!r}).read_text())["token"] == "")
"""
    own = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
    with alone():
        said = subprocess.run(
            [sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=LIMIT_S
        )
    assert said.stdout.strip() == "True", said.stderr


def test_a_process_with_a_head_of_its_own_joins_no_other_cluster() -> None:
    """Ray keeps the token: the nodes of the other cluster could not answer this process."""
    program = """
from mappa_rl.cluster.session import connect, disconnect
from mappa_rl.config import Cluster
connect(Cluster(name="ray"))
disconnect()
connect(Cluster(name="ray", address="127.0.0.1:6379"))
"""
    plain = {name: value for name, value in os.environ.items() if "RAY_" not in name}
    with alone():
        said = subprocess.run(
            [sys.executable, "-c", program], env=plain, capture_output=True, text=True, timeout=LIMIT_S
        )
    assert "Start another process" in said.stderr


def test_a_dead_address_is_refused_with_the_remedy() -> None:
    with held_port("127.0.0.1") as dead:
        began = time.monotonic()
        with pytest.raises(ClusterError, match=r"within 2 s: .*refused.* Check cluster\.address"):
            join(f"127.0.0.1:{dead.getsockname()[1]}", 2.0)
    assert time.monotonic() - began < 10.0
    with pytest.raises(ClusterError, match=r"Check cluster\.address"):
        join("no-such-host.invalid:6379", 20.0)


JOINS = """
import sys
from mappa_rl.cluster.session import connect, import_ray
from mappa_rl.config import Cluster
from mappa_rl.errors import ClusterError
from mappa_rl.stopping import Stopping
import_ray()
with Stopping():
    print("joining", flush=True)
    try:
        connect(Cluster(name="ray", address=sys.argv[1], placement_s=float(sys.argv[2])))
    except ClusterError as error:
        print(error)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("placement_s", "stops", "says"), [(3, False, "does not answer as a head"), (60, True, "interrupted")]
)
def test_what_does_not_answer_as_ray_keeps_nobody(placement_s: int, stops: bool, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = [sys.executable, "-c", JOINS, f"127.0.0.1:{silent.getsockname()[1]}", str(placement_s)]
        process = subprocess.Popen(
            words, env={**os.environ, **LOOPBACK}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "joining\n"
            began = time.monotonic()
            if stops:
                silent.accept()  # it is there, and waits
                process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0
            assert says in said
            assert time.monotonic() - began < 20.0
        finally:
            process.kill()


def test_status_asks_no_cluster_of_a_run_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call_roll(run: Path) -> None:
        raise AssertionError("the cluster has died with the run")

    monkeypatch.setattr(status, "call_roll", call_roll)
    (tmp_path / "config.yaml").write_text("run: {steps: 7}")
    (tmp_path / RECORD).write_text('{"address": "127.0.0.1:9", "namespace": "x", "token": ""}')
    assert main(["status", str(tmp_path)]) == 0
    assert "stopped; resume it" in capsys.readouterr().out


def test_status_of_a_run_without_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("run: {steps: 7}")
    assert list(status.described(tmp_path)) == [
        f"stopped; resume it with `mappa-rl train --resume {tmp_path}`",
        "no training step yet, of 7",
        "no checkpoint yet",
    ]
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "success": 0.25}\n{"step": 2, "succ')
    (tmp_path / "summary.json").write_text("{}")
    found = list(status.described(tmp_path))
    assert found[0] == "finished"
    assert found[1].startswith("step 1 of 7, 0:00 ago: success 25%")


@pytest.mark.parametrize(
    ("named", "count", "seen"),
    [(None, 4, "1,2,3"), ("5,3", 2, "3"), ("7", 1, ""), (None, 1, ""), (None, 0, None), ("", 0, "")],
)
def test_a_head_of_its_own_does_not_have_the_gpu_of_the_process_that_leads(
    named: str | None, count: int, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    found: list[str | None] = []

    class Ray:
        @staticmethod
        def init(*_: Any, **__: Any) -> None:
            found.append(os.environ.get("CUDA_VISIBLE_DEVICES"))

    session._begin(Ray)
    assert found == [seen]
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == named
