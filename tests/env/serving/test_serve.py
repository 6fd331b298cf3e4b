"""``mappa-env serve`` and its client against each other, as processes on loopback."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gymnasium as gym
import pytest
import requests
from gymnasium.utils.env_checker import check_env

import mappa_env
from mappa_env.cli import main
from mappa_env.envs.partners import Partners
from mappa_env.errors import OptionError, RemoteError
from mappa_env.serving.client import ID, RemoteEnv
from mappa_env.serving.loopback import is_loopback
from serving_process import Serving, serve

ENV = "mappa/MathChat-v0"
FAST = ["mathchat", "--sandbox", "calculator"]
TOKEN = "canary-token-0123456789"
CANARY = "918273645546"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """For tests that leave no episode open."""
    with serve(tmp_path_factory.mktemp("serve") / "out", *FAST, "--episodes", "4") as found:
        yield found


def post(url: str, body: Any = None, **more: Any) -> requests.Response:
    return requests.post(url, json={} if body is None else body, timeout=30, **more)


def test_gymnasiums_checks_pass_through_loopback(server: Serving) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        env = gym.make(f"mappa_env.serving.client:{ID}", url=server.url)
    assert isinstance(env.unwrapped, RemoteEnv)
    check_env(env.unwrapped)
    env.close()


def test_an_episode_over_http_is_the_one_that_gym_make_plays(server: Serving) -> None:
    """The same observations, rewards and infos, to the last one: an expert plays both at once."""
    near = gym.make(ENV, sandbox="calculator", disable_env_checker=True)
    far = RemoteEnv(server.url)
    assert far.observation_space == near.observation_space
    assert (far.environment, far.agents) == (ENV, ("solver_0", "coder_0", "verifier_0"))
    for seed in range(3):
        assert far.reset(seed=seed) == near.reset(seed=seed)
        episode = mappa_env.team_env(near).episode
        team = Partners(episode.card, "expert", agent=None, prompts="full")
        team.reset(episode)
        over = False
        while not over:
            action = team.act(episode)
            there, here = far.step(action), near.step(action)
            assert there == here
            assert far.observation_space.contains(there[0])
            over = here[2]
        assert here[4]["outcome/success"] is True
        with pytest.raises(RemoteError, match=r"409.*reset"):
            far.step("once more")
    far.close()
    near.close()


def test_a_task_can_be_chosen_and_seeds_decide_the_rest(server: Serving) -> None:
    env = RemoteEnv(server.url)
    task = env.task_ids[7]
    assert env.reset(options={"task_id": task})[1]["task_id"] == task
    drawn = []
    for _ in range(2):
        env.reset(seed=5)
        drawn.append([env.reset()[1]["task_id"] for _ in range(3)])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1
    with pytest.raises(RemoteError, match=r"400.*unknown reset option 'task'.*Did you mean 'task_id'"):
        env.reset(options={"task": task})
    with pytest.raises(RemoteError, match=r"400.*nothing-like-it"):
        env.reset(options={"task_id": "nothing-like-it"})
    env.close()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/episodes", {"seed": -1}, 400, "seed=-1 must be a whole number"),
        ("/episodes", {"seed": 2**63}, 400, "must be a whole number"),
        ("/episodes", {"seed": True}, 400, "must be a whole number"),
        ("/episodes", {"options": [1]}, 400, "must be an object"),
        ("/episodes", {"options": {"task_id": 3}}, 400, "must be a text"),
        ("/episodes", {"sede": 3}, 400, "Did you mean 'seed'?"),
        ("/episodes", [1], 400, "must be a JSON object"),
        ("/episodes/none/step", {"action": 1}, 400, "must be a text"),
        ("/episodes/none/step", {"action": "x"}, 404, "POST /episodes"),
        ("/episodes/none/reset", {}, 404, "POST /episodes"),
        ("/nothing", {}, 404, "There are GET /environment"),
        ("/tasks", {}, 405, "There are GET /environment"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    server: Serving, path: str, body: Any, status: int, words: str
) -> None:
    answered = post(server.url + path, body)
    assert answered.status_code == status
    assert words in answered.json()["error"]


def test_bodies_are_bounded_and_must_be_json(server: Serving) -> None:
    url, kind = server.url + "/episodes", {"Content-Type": "application/json"}
    assert requests.post(url, data="{}", timeout=30).status_code == 415
    assert requests.post(url, data="{", headers=kind, timeout=30).status_code == 400
    deep = "[" * 100_000 + "]" * 100_000
    assert requests.post(url, data=deep, headers=kind, timeout=30).status_code == 400
    big = json.dumps({"action": "x" * 1_000_001})
    assert requests.post(f"{url}/a/step", data=big, headers=kind, timeout=30).status_code == 413
    parts = (b" " * 100_000 for _ in range(20))  # without a length
    assert requests.post(f"{url}/a/step", data=parts, headers=kind, timeout=30).status_code == 413
    assert (
        requests.get(server.url + "/environment", headers={"Host": "evil.example"}, timeout=30).status_code
        == 403
    )


def test_a_client_that_hangs_up_leaves_no_traceback(tmp_path: Path) -> None:
    with serve(tmp_path / "out", *FAST) as server:
        address = urlsplit(server.url)
        for path in ("/episodes", "/episodes/x/reset", "/episodes/x/step"):
            with socket.create_connection((str(address.hostname), int(address.port or 0))) as client:
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                client.sendall(f'{head}Content-Length: 100\r\n\r\n{{"seed": '.encode())
                time.sleep(0.2)
        assert requests.get(f"{server.url}/tasks", timeout=30).status_code == 200
        server.end()
    assert (tmp_path / "out").read_text().count("\n") == 1, "the address, and nothing else"


def test_texts_that_utf8_cannot_hold_and_markup_are_actions_like_any_other(server: Serving) -> None:
    env = RemoteEnv(server.url)
    env.reset(seed=0)
    for action in ("\ud800 \x00 \u202e", "<script>alert(1)</script>", "{{ 7*7 }}{% raw %}"):
        observation, _, over, _, info = env.step(action)
        assert env.observation_space.contains(observation)
        assert isinstance(info["messages"], list)
    assert over or observation["prompt"]
    env.close()


def test_there_is_a_limit_on_open_episodes_and_closing_makes_room(server: Serving) -> None:
    url = server.url + "/episodes"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(url), range(8)))
    assert sorted(each.status_code for each in answers) == [201] * 4 + [429] * 4
    refused = next(each for each in answers if each.status_code == 429)
    assert "4 episodes are open" in refused.json()["error"]
    assert refused.headers["Retry-After"]
    for each in answers:
        if each.status_code == 201:
            name = each.json()["id"]
            assert requests.delete(f"{url}/{name}", timeout=30).status_code == 204
            assert requests.delete(f"{url}/{name}", timeout=30).status_code == 404
    answered = post(url)
    assert answered.status_code == 201
    requests.delete(f"{url}/{answered.json()['id']}", timeout=30)


def test_idle_episodes_are_closed_and_the_client_begins_another(tmp_path: Path) -> None:
    with serve(tmp_path / "out", *FAST, "--episodes", "1", "--idle", "1") as server:
        env, other = RemoteEnv(server.url), RemoteEnv(server.url)
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="429"):
            other.reset(seed=0)
        begun = None
        while begun is None:  # until the server has closed the idle one
            with suppress(RemoteError):
                begun = other.reset(seed=0)
        assert begun[1]["task_id"] == env_task(seed=0)
        with pytest.raises(RemoteError, match=r"404.*idle for 1 s"):
            env.step("too late")
        other.close()
        env.reset(seed=1)
        assert server.end(signal.SIGINT)[0] == 130


def env_task(seed: int) -> str:
    env = gym.make(ENV, sandbox="calculator", disable_env_checker=True)
    found = str(env.reset(seed=seed)[1]["task_id"])
    env.close()
    return found


def test_no_answer_holds_the_truth(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "one", "prompt": "What is it?", "answer": CANARY}) + "\n")
    seen = []
    with serve(tmp_path / "out", *FAST, "--tasks", str(tasks)) as server:
        seen += [requests.get(server.url + path, timeout=30).text for path in ("/environment", "/tasks")]
        begun = post(server.url + "/episodes")
        step, over = f"{server.url}/episodes/{begun.json()['id']}/step", False
        while not over:
            answered = post(step, {"action": "plan\n```python\nprint(1)\n```\nThe answer is \\boxed{1}."})
            over = answered.json()["terminated"]
            seen.append(answered.text)
        assert server.end()[0] == 143
    assert json.loads(seen[-1])["info"]["outcome/success"] is False
    assert CANARY not in begun.text + "".join(seen) + server.output.read_text()


def test_a_client_acts_for_one_agent_while_partners_act_for_the_others(tmp_path: Path) -> None:
    with serve(tmp_path / "out", *FAST, "--agent", "verifier_0", "--coach", "off") as server:
        env = RemoteEnv(server.url)
        observation, info = env.reset(seed=0)
        assert env.agents[observation["agent"]] == info["agent"] == "verifier_0"
        _, _, over, _, info = env.step("The answer is \\boxed{0}.")
        assert over
        env.close()


def test_the_token_is_asked_for_and_shown_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAPPA_SERVE_TOKEN", raising=False)
    with serve(tmp_path / "out", *FAST, "--host", "0.0.0.0", MAPPA_SERVE_TOKEN=TOKEN) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xff"}):
            answered = requests.get(f"{url}/tasks", headers=headers, timeout=30)
            assert answered.status_code == 401
            assert "Authorization: Bearer <token>" in answered.json()["error"]
        with pytest.raises(RemoteError, match="401"):
            RemoteEnv(url)
        monkeypatch.setenv("MAPPA_SERVE_TOKEN", TOKEN)
        env = RemoteEnv(url)
        env.reset(seed=0)
        assert TOKEN.encode() not in pickle.dumps(env._session)
        assert TOKEN not in repr(vars(env))
        env.close()
        server.end()
    assert "canary" not in server.output.read_text()


@pytest.mark.parametrize(
    ("arguments", "token", "words"),
    [
        (["--host", "0.0.0.0"], "", "MAPPA_SERVE_TOKEN"),
        (["--host", "::"], "", "MAPPA_SERVE_TOKEN"),
        (["--host", "example.org"], "", "MAPPA_SERVE_TOKEN"),
        ([], "short", "16 characters"),
        ([], "a token with spaces in it", "without spaces"),
        (["--port", "99999999"], "", "--port 99999999 cannot be used"),
        (["--tasks", "/nothing/here.jsonl"], "", "/nothing/here.jsonl"),
        (["--agent", "coder"], "", "coder_0"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(
    arguments: list[str],
    token: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MAPPA_SERVE_TOKEN", token)
    assert main(["serve", *FAST, *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert not token or token not in said


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", *FAST, "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.slow
def test_it_ends_within_seconds_while_an_action_runs_and_leaves_nothing(tmp_path: Path) -> None:
    """The code that runs then ends by itself, or at its own time limit."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with serve(tmp_path / "out", "mathchat", "--sandbox", "local", TMPDIR=str(scratch)) as server:
        env = RemoteEnv(server.url, timeout_s=30)
        env.reset(seed=0)
        env.step("The coder sleeps.")
        action = "```python\nimport time\ntime.sleep(14)\n```"
        failed: list[BaseException] = []

        def step() -> None:
            try:
                env.step(action)
            except RemoteError as error:
                failed.append(error)

        caller = threading.Thread(target=step)
        caller.start()
        caller.join(3)  # by then the code runs
        assert caller.is_alive()
        children = _descendants(server.process.pid)
        status, seconds = server.end()
        caller.join(20)
    assert status == 143
    assert seconds < 9  # the code would sleep for 11 more
    assert failed
    until = time.monotonic() + 15
    while (left := [pid for pid in children if _alive(pid)]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    assert not [path for path in scratch.rglob("*") if path.is_file()]


def test_every_loopback_address_is_served_without_a_token(tmp_path: Path) -> None:
    with serve(tmp_path / "out", *FAST, "--host", "127.0.0.2") as server:
        assert server.url.startswith("http://127.0.0.2:")
        assert RemoteEnv(server.url).environment == ENV


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.0.1", "::1"])
def test_hosts_that_only_this_machine_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.evil.example", "localhost.evil"]
)
def test_hosts_that_others_reach_or_name(host: str) -> None:
    assert not is_loopback(host)


def test_a_client_without_a_server_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RemoteError, match="is 'mappa-env serve' running there"):
        RemoteEnv(f"http://127.0.0.1:{port}")


def test_the_client_refuses_a_bad_token(monkeypatch: pytest.MonkeyPatch, server: Serving) -> None:
    monkeypatch.setenv("MAPPA_SERVE_TOKEN", "short")
    with pytest.raises(OptionError, match="16 characters"):
        RemoteEnv(server.url)


def _descendants(pid: int) -> list[int]:
    shown = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    parents = {int(a): int(b) for a, b in (line.split() for line in shown.splitlines()[1:])}
    found, more = [], [pid]
    while more:
        more = [child for child, parent in parents.items() if parent in more]
        found += more
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return os.path.exists(f"/proc/{pid}")
