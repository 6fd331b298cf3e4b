"""What a store writes is there: after a kill, a full disk, a fork, many writers; and keys are not."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.registration import find_card
from mappa_env.trace import Learned, TraceFile, Traces, TraceStore, read
from mappa_env.trace.appending import Appender
from mappa_env.trace.secrets import Secrets
from mappa_env.trace.source import described
from mappa_env.trace.writer.client import settle
from mappa_env.types import Trajectory

WRITE = os.write
PLAYING = """
import sys, gymnasium as gym, mappa_env
env = gym.make("mappa/MathChat-v0", sandbox="null", coach="off", record=sys.argv[1])
env.reset(seed=1)
print("ready", flush=True)
count = 0
while True:
    over = False
    while not over:
        *_, over, _, _ = env.step("plan: 1")
    count += 1
    print(count, flush=True)
    if sys.argv[2] == "once":
        raise SystemExit
    env.reset()
"""


@pytest.fixture(scope="module")
def episode() -> Trajectory:
    env = gym.make("mappa/MathChat-v0", sandbox="calculator")
    env.reset(seed=1)
    for text in ("plan: 6 * 7", "```python\nprint(6 * 7)\n```", "result: 42", "answer: \\boxed{42}"):
        env.step(text)
    trajectory: Trajectory = team_env(env).trajectory
    env.close()
    return trajectory


@pytest.fixture(scope="module")
def card() -> Card:
    return find_card("mathchat")


def playing(path: Path, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PLAYING, str(path), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def settled(path: Path, count: int) -> list[Trajectory]:
    """The episodes in a file when ``count`` are there: who writes them may outlive who was killed."""
    end = time.monotonic() + 20
    while len(found := list(read(path))) < count and time.monotonic() < end:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_costs_no_finished_episode(tmp_path: Path, number: int) -> None:
    path = tmp_path / "t.jsonl"
    process = playing(path, "on")
    assert process.stdout is not None
    while process.stdout.readline().strip() != "40":
        pass
    process.send_signal(number)
    said = [line for line in process.stdout.read().split("\n") if line.isdecimal()]
    process.wait()
    finished = int(said[-1]) if said else 40
    found = settled(path, finished)
    assert finished <= len(found) <= finished + 1
    assert all(len(trajectory.actions) == 3 for trajectory in found)


def test_an_exit_without_close_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    process = playing(path, "once")
    process.communicate()
    assert process.returncode == 0
    assert len(list(read(path))) == 1


def test_a_text_is_written_once(tmp_path: Path, episode: Trajectory) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    for _ in range(3):
        store.append(episode)
    store.close()
    lines = [json.loads(line) for line in store.path.read_text().splitlines()]
    texts = [line["id"] for line in lines if line["kind"] == "text"]
    assert texts
    assert len(set(texts)) == len(texts)


def test_threads_may_share_a_store(tmp_path: Path, episode: Trajectory) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    seeds = range(200)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: store.append(dataclasses.replace(episode, seed=seed)), seeds))
    store.close()
    assert sorted(each.seed for each in read(store.path)) == list(seeds)


def test_a_full_disk_surfaces(episode: Trajectory) -> None:
    store = TraceStore("/dev/full")
    for complains in (store.settle, store.close, lambda: store.append(episode)):
        store.append(episode)
        store.append(episode)
        settle()  # this program's readers wait for it, but only the store complains
        with pytest.raises(OSError, match=r"No space left on device.* \(and 1 more\)") as caught:
            complains()
        assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="No space left on device"):
        store.close()  # the last of them


def writes_half(file: int, data: bytes) -> int:
    return WRITE(file, data[: len(data) // 2])


def test_what_a_full_disk_cut_short_costs_no_later_episode(
    tmp_path: Path, episode: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Appender(tmp_path / "t.jsonl")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", writes_half)
        with pytest.raises(OSError, match="only"):
            store.append(episode)
    for seed in (2, 3):
        store.append(dataclasses.replace(episode, seed=seed))
    store.close()
    assert [each.seed for each in read(store.path)] == [2, 3]


def test_a_writer_that_dies_takes_no_record_of_another_along(
    tmp_path: Path, episode: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor, victim = (Appender(tmp_path / "t.jsonl") for _ in range(2))
    survivor.append(episode)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", writes_half)
        with pytest.raises(OSError, match="only"):
            victim.append(dataclasses.replace(episode, seed=2))
    long = dataclasses.replace(episode, task=dataclasses.replace(episode.task, prompt="other " * 200))
    for seed in (3, 4):
        survivor.append(dataclasses.replace(long, seed=seed))
    survivor.close()
    assert [each.seed for each in read(survivor.path)] == [episode.seed, 3, 4]


def test_a_fork_writes_for_itself(tmp_path: Path, episode: Trajectory) -> None:
    store = TraceStore(tmp_path / "t.jsonl.gz")
    store.append(episode)
    child = os.fork()
    if not child:
        code = 1
        try:
            store.append(dataclasses.replace(episode, seed=2))
            store.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.append(dataclasses.replace(episode, seed=3))
    store.close()
    assert sorted(each.seed for each in read(store.path)) == sorted([episode.seed, 2, 3])
    assert store.path.read_bytes()[:2] == b"\x1f\x8b"  # the last one to close it has packed it


def test_a_packed_file_can_be_continued(tmp_path: Path, episode: Trajectory, card: Card) -> None:
    path = tmp_path / "t.jsonl.gz"
    for seed in range(3):
        store = TraceStore(path, card=card, about={"round": seed})
        store.append(dataclasses.replace(episode, seed=seed))
        assert [each.seed for each in read(path)] == list(range(seed + 1))  # also while it is open
        store.close()
        assert [each.seed for each in read(path)] == list(range(seed + 1))
    text = subprocess.run(["gzip", "-dc", str(path)], capture_output=True, check=True).stdout
    assert sum(json.loads(line)["kind"] == "episode" for line in text.splitlines()) == 3
    assert [recorded.about["round"] for recorded in Traces(path)] == [0, 1, 2]
    assert {recorded.card["id"] for recorded in Traces(path)} == {"MathChat-v0"}


def test_one_episode_is_read_without_the_others(
    tmp_path: Path, episode: Trajectory, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mappa_env.trace.packing.BLOCK", 20_000)
    store = Appender(tmp_path / "t.jsonl.gz", card=described(card))
    for seed in range(30):
        store.append(dataclasses.replace(episode, seed=seed))
    store.close()
    file = TraceFile(store.path)
    assert len(file._index.members) > 3
    data = bytearray(store.path.read_bytes())
    offset, length = file._index.members[1]
    data[offset : offset + length] = bytes(length)  # damage one part
    store.path.write_bytes(data)
    file = TraceFile(store.path)
    keys = {summary.seed: summary.key for summary in file.summaries}
    assert len(keys) == 30
    assert file.load(keys[0]).trajectory.actions == episode.actions
    assert file.load(keys[29]).trajectory.actions == episode.actions


def test_a_growing_file_is_followed(tmp_path: Path, episode: Trajectory) -> None:
    store = TraceStore(tmp_path / "t.jsonl.gz")
    store.append(episode)
    traces = Traces(store.path)
    for count in (1, 2, 3):
        assert len(list(traces.summaries)) == count
        assert not traces.refresh()
        store.append(episode)
        assert traces.refresh()
    store.close()
    assert traces.refresh()
    assert len(list(traces)) == 4


def test_a_file_that_another_program_packed_is_read_but_not_continued(
    tmp_path: Path, episode: Trajectory
) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(episode)
    store.close()
    subprocess.run(["gzip", str(store.path)], check=True)
    assert len(list(read(store.path))) == 1  # NAME.jsonl finds NAME.jsonl.gz
    packed = (tmp_path / "t.jsonl.gz").read_bytes()
    later = TraceStore(tmp_path / "t.jsonl.gz")
    for _ in range(2):
        with pytest.raises(ValueError, match="compressed by another program"):
            later.append(episode)
    later.close()
    assert later.path.read_bytes() == packed


def test_the_new_part_of_a_prompt_is_known(episode: Trajectory, tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(episode)
    store.close()
    (found,) = Traces(store.path)
    assert [len(new) for new in found.news] == [1, 1, 1, 1]
    assert found.news[2][0]["content"] == episode.actions[2].messages[-1]["content"]
    assert len(episode.actions[2].messages) == 3
    assert found.segments == (0, 1, 1, 2)


KEYS = {
    "openai": "sk-proj-" + "Ab3dEf6h" * 5,
    "google": "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw",
    "hugging face": "hf_" + "abcdEFGH1234" * 3,
    "github": "ghp_" + "a1B2c3D4" * 5,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "groq": "gsk_" + "aB3" * 17,
    "xai": "xai-" + "aB3" * 20,
    "nvidia": "nvapi-" + "aB3-" * 12,
    "gitlab": "glpat-" + "aB3-" * 6,
    "stripe": "sk_live_" + "aB3" * 8,
    "json web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmN",
}


@pytest.mark.parametrize("name", list(KEYS))
def test_keys_of_known_forms_are_hidden(name: str, tmp_path: Path, episode: Trajectory) -> None:
    key = KEYS[name]
    action = dataclasses.replace(episode.actions[0], action=f"key='{key}'.")
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, actions=(action,)))
    store.close()
    assert key not in store.path.read_text("utf-8")
    (found,) = read(store.path)
    assert found.actions[0].action == "key='[secret]'."


@pytest.mark.parametrize("value", ["hunter2-hunter2", 'with "quotes" é', "reward_valid", "timing12"])
def test_values_of_key_variables_are_hidden(
    value: str, tmp_path: Path, episode: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", value)
    message = {"role": "user", "content": "x" * 600 + value}
    action = dataclasses.replace(episode.actions[0], action=f"<{value}>", messages=(message,))
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, actions=(action,)))
    store.close()
    (found,) = read(store.path)
    assert found.actions[0].action == "<[secret]>"
    assert found.actions[0].messages[0]["content"].endswith("x[secret]")


def test_other_spellings_of_a_key_variable_are_hidden(
    tmp_path: Path, episode: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = 'hunter2"\\/pass word\n'
    monkeypatch.setenv("SOME_PASSWORD", value)
    bare = value.strip()
    spellings = [value, bare, json.dumps(bare), repr(bare), urllib.parse.quote(bare, safe="")]
    action = dataclasses.replace(episode.actions[0], action="\n".join(spellings))
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, actions=(action,)))
    store.close()
    (found,) = read(store.path)
    assert "hunter2" not in found.actions[0].action
    assert found.actions[0].action.count("[secret]") == len(spellings)


def test_a_prompt_with_a_key_is_written_once_and_without_it(tmp_path: Path, episode: Trajectory) -> None:
    message = {"role": "user", "content": "x" * 600 + " " + KEYS["github"]}
    action = dataclasses.replace(episode.actions[0], messages=(message,))
    store = TraceStore(tmp_path / "t.jsonl")
    for actions in ((action,), (action, *episode.actions[1:]), episode.actions):
        store.append(dataclasses.replace(episode, actions=actions))
    store.close()
    lines = [json.loads(line) for line in store.path.read_text("utf-8").splitlines()]
    texts = [line["text"] for line in lines if line["kind"] == "text"]
    assert len(set(texts)) == len(texts)
    assert texts[0] == "x" * 600 + " [secret]"
    assert [each.actions[0].messages[0]["content"] for each in read(store.path)][:2] == [texts[0]] * 2


def test_the_value_of_an_authorization_is_hidden() -> None:
    line = b'"Authorization: Bearer abcdef-123456-abcdef-7"'
    assert Secrets({}).hide(line) == b'"Authorization: Bearer [secret]"'


def test_what_only_looks_like_a_key_stays() -> None:
    harmless = (
        b'"the task-force of sk-learn uses hf_hub and AKIA; a bearer of bad news, gh pr, ask_me, xai-tools"'
    )
    assert Secrets({"HOME_KEY": "short"}).hide(harmless) == harmless


def test_a_coach_s_own_variable_is_hidden(
    tmp_path: Path, episode: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_LOGIN", "correct-horse-battery")
    settings = {**episode.settings, "coach": {"name": "openai:m@http://h", "key_variable": "MY_LOGIN"}}
    action = dataclasses.replace(episode.actions[0], action="it is correct-horse-battery")
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(dataclasses.replace(episode, settings=settings, actions=(action,)))
    store.close()
    assert "correct-horse" not in store.path.read_text("utf-8")


def test_no_token_ids_spell_a_key(tmp_path: Path, episode: Trajectory) -> None:
    key = "sk-" + "a1B2c3D4" * 5
    writer = Appender(tmp_path / "t.jsonl")
    made = [Learned(0, "lead", 1, 5.0, True, 1.0, 0.5, "eos", (1, 2), (3,), (-0.5,))]
    with_key = episode.actions[0].messages[0] | {"content": f"{key} " + "x" * 600}
    action = dataclasses.replace(episode.actions[0], messages=(with_key,))
    secret = dataclasses.replace(episode, actions=(action, *episode.actions[1:]))
    for trajectory in (secret, episode, secret):  # the second time, the text is in the file already
        writer.learned(writer.append(trajectory), made)
    writer.close()
    made_of_it = [recorded.learned[0] for recorded in TraceFile(writer.path)]
    assert [each.context_ids for each in made_of_it] == [(), (1, 2), ()]
    assert [each.advantage for each in made_of_it] == [0.5] * 3


def test_a_card_with_a_key_is_written_without_it(tmp_path: Path, episode: Trajectory, card: Card) -> None:
    key = "sk-" + "a1B2c3D4" * 5
    store = TraceStore(tmp_path / "t.jsonl", card=dataclasses.replace(card, summary=f"uses {key}"))
    store.append(episode)
    store.close()
    assert key not in store.path.read_text()
