"""The process that writes: what it is told arrives, it says what went wrong, and it ends when it should."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mappa_env.errors import DataError
from mappa_env.trace import TraceStore, read
from mappa_env.trace.writer.client import SHARED, TraceWarning, Writer, WriterError
from mappa_env.trace.writer.parts import PART
from mappa_env.types import Outcome, Task, Trajectory

EPISODE = Trajectory("E-v0", Task("t", "", "m"), 1, (), None)


def with_seed(seed: Any) -> Trajectory:
    return dataclasses.replace(EPISODE, seed=seed)


def seeds(path: Path) -> list[int]:
    return [each.seed for each in read(path)]


def process_of(store: TraceStore) -> subprocess.Popen[bytes]:
    assert store._writer is not None
    return store._writer._process


def test_many_stores_need_one_process_which_ends_with_the_last(tmp_path: Path) -> None:
    stores = [TraceStore(tmp_path / f"{number}.jsonl") for number in range(5)]
    for number, store in enumerate(stores):
        store.append(with_seed(number))
    (process,) = {process_of(store) for store in stores}
    for store in stores[1:]:
        store.close()
    assert process.poll() is None
    stores[0].close()
    assert process.returncode == 0
    assert [seeds(store.path) for store in stores] == [[number] for number in range(5)]


def test_an_environment_closes_its_writer(tmp_path: Path) -> None:
    env = gym.make("mappa/MathChat-v0", sandbox="null", coach="off", record=str(tmp_path / "t.jsonl"))
    env.reset(seed=1)
    over = False
    while not over:
        *_, over, _, _ = env.step("plan: 1")
    writer = SHARED.running
    assert writer is not None
    process = writer._process
    del writer
    env.close()
    assert process.returncode == 0
    assert SHARED.running is None


def test_a_program_reads_what_it_has_just_recorded(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    for seed in range(30):
        store.append(with_seed(seed))
        assert seeds(store.path) == list(range(seed + 1))
    store.close()


def test_episodes_longer_than_a_part_arrive(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    lengths = [0, PART - 200, PART, 3 * PART + 1, 60 * PART]
    for length in lengths:
        store.append(dataclasses.replace(EPISODE, outcome=Outcome(0.0, False, "ok", "é" * length)))
    store.close()
    found = [each.outcome for each in read(store.path)]
    assert [len(outcome.reason) for outcome in found if outcome is not None] == lengths


def test_what_messagepack_lacks_arrives(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    settings = [{"n": 10**30}, {"text": "\ud800"}, {"nested": {"x": float("nan")}}, {"deep": [[1, (2,)]]}]
    for each in settings:
        store.append(dataclasses.replace(EPISODE, settings=each))
    store.close()
    found = [dict(each.settings) for each in read(store.path)]
    assert repr(found) == repr([*settings[:3], {"deep": [[1, [2]]]}])


def test_what_is_no_episode_costs_no_other(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))
    store.append(with_seed("a word"))  # handed over, but no reader would take it
    store.append(with_seed(2))
    with pytest.raises(DataError, match="int"):
        store.settle()
    with pytest.raises(TypeError):  # nothing can write it
        store.append(dataclasses.replace(EPISODE, settings={"x": object()}))
    store.append(with_seed(3))
    store.close()
    assert seeds(store.path) == [1, 2, 3]


@pytest.mark.parametrize(
    "odd", [b"\xff", {"deep": json.loads("[" * 900 + "]" * 900)}, memoryview(b"\xff"), {b"\xff": 1}]
)
def test_what_only_the_writer_cannot_take_costs_no_episode_of_others(tmp_path: Path, odd: Any) -> None:
    victim, other = TraceStore(tmp_path / "1.jsonl"), TraceStore(tmp_path / "2.jsonl")
    for store in (victim, other):
        store.append(with_seed(1))
    with contextlib.suppress(TypeError, ValueError, RecursionError, OSError):
        victim.append(dataclasses.replace(EPISODE, settings={"x": odd}))
        victim.settle()
    for store in (victim, other):
        store.append(with_seed(2))
        store.close()
        found = [each.seed for each in read(store.path) if not each.settings]
        assert found == [1, 2]


def test_a_file_that_cannot_be_opened_is_known_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        TraceStore(tmp_path / "file" / "t.jsonl").append(EPISODE)
    assert SHARED.running is None


def test_a_killed_writer_is_reported_and_replaced(tmp_path: Path) -> None:
    one, other = TraceStore(tmp_path / "1.jsonl"), TraceStore(tmp_path / "2.jsonl")
    for store in (one, other):
        store.append(with_seed(1))
        store.settle()
    process_of(one).kill()
    process_of(one).wait()
    for store in (one, other):  # each may have lost something
        with pytest.raises(WriterError, match="exit status -9"):
            store.append(with_seed(2))
    for store in (one, other):
        store.append(with_seed(3))
        store.close()
        assert seeds(store.path) == [1, 3]


def test_a_close_says_that_the_writer_has_died(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))
    process_of(store).kill()
    with pytest.raises(WriterError):
        store.close()


def test_what_nobody_closes_warns_of_its_losses() -> None:
    store = TraceStore("/dev/full")
    store.append(EPISODE)
    with pytest.warns(TraceWarning, match="1 recorded episodes are lost.*No space left"):
        del store


def test_nothing_is_said_where_nothing_was_lost(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(EPISODE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del store
    assert seeds(tmp_path / "t.jsonl") == [1]


def test_an_answer_to_somebody_who_was_interrupted_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))

    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.settle()
    store.append(with_seed(2))
    store.settle()
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 2
    store.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_costs_nothing(tmp_path: Path, number: int) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))
    os.kill(process_of(store).pid, number)
    store.append(with_seed(2))
    store.close()
    assert seeds(store.path) == [1, 2]


def test_a_fork_that_lives_on_does_not_hold_its_parent_s_writer(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    try:
        process = process_of(store)
        started = time.monotonic()
        store.close()
        assert process.returncode == 0
        assert time.monotonic() - started < 30
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_an_interrupted_open_keeps_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = SHARED.get()
    store = TraceStore(tmp_path / "t.jsonl.gz")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append(with_seed(1))
    store.append(with_seed(2))
    store.close()
    assert store.path.read_bytes()[:2] == b"\x1f\x8b"  # nobody else had it open
    assert seeds(store.path) == [2]
    assert SHARED.running is keeper


def test_reading_settles_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(with_seed(1))
    assert seeds(store.path) == [1]
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_ask", None)
        assert seeds(store.path) == [1]
    store.close()


def test_a_store_of_a_process_that_ends_is_packed_without_its_writer(tmp_path: Path) -> None:
    one, other = TraceStore(tmp_path / "1.jsonl.gz"), TraceStore(tmp_path / "2.jsonl")
    for store in (one, other):
        store.append(with_seed(1))
    assert one._writer is not None
    with one._writer._lock:  # as if the writer were busy with others: packing does not need it
        one.close()
    assert one.path.read_bytes()[:2] == b"\x1f\x8b"
    other.close()


def test_keys_set_after_the_writer_has_started_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = TraceStore(tmp_path / "1.jsonl"), TraceStore(tmp_path / "2.jsonl")
    first.append(EPISODE)
    monkeypatch.setenv("LATE_API_KEY", "correct horse battery")
    second.append(dataclasses.replace(EPISODE, settings={"x": "my correct horse battery staple"}))
    for store in (first, second):
        store.close()
    assert "[secret] staple" in second.path.read_text()


def test_a_default_timeout_of_sockets_changes_nothing(tmp_path: Path) -> None:
    socket.setdefaulttimeout(1e-3)
    try:
        store = TraceStore(tmp_path / "t.jsonl")
        for seed in range(2000):
            store.append(with_seed(seed))
        store.close()
    finally:
        socket.setdefaulttimeout(None)
    assert seeds(store.path) == list(range(2000))


def test_threads_with_stores_of_their_own_share_a_writer(tmp_path: Path) -> None:
    def record(number: int) -> None:
        store = TraceStore(tmp_path / "t.jsonl")
        for seed in range(50):
            store.append(with_seed(100 * number + seed))
        store.close()

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    keeper: Writer = SHARED.get()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SHARED.running is keeper
    assert sorted(seeds(tmp_path / "t.jsonl")) == sorted(
        100 * n + seed for n in range(4) for seed in range(50)
    )
