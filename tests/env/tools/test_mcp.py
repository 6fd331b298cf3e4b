"""Hostile MCP servers: a clear status, the coach's score unchanged, no secret anywhere."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostile_mcp import INJECTION
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError, ToolError
from mappa_env.plugins import TRUST
from mappa_env.tools.base import CallLimits
from mappa_env.tools.calls import Written
from mappa_env.tools.entry import ToolEntry
from mappa_env.tools.mcp.tool import McpTool
from mappa_env.tools.toolbox import Toolbox
from mappa_env.trace.record import TraceStore, read
from mappa_env.types import ActionRecord, AgentSpec, Team, ToolCall, Trajectory
from paths import ROOT
from tool_cards import fence, tool_card

pytest.importorskip("mcp")
HELPERS = ROOT / "tests" / "helpers"
CANARY = "canary-mcp-4f1d9c77"
LIMITS = {"wall_s": 1.0, "result_chars": 2000, "result_cap_kb": 64, "per_action": 4}
STDIO = ("echo", "leak", "fail", "inject", "lie", "garbage", "die", "echo", "babble")
HTTP = ("echo", "flood", "stall", "echo", "inject")
COACH = {
    "version": 1,
    "template": "coach.jinja",
    "roles": {
        "scout": {
            "duty": "ask",
            "criteria": [{"name": "a", "weight": 1, "question": "?", "best": "b", "worst": "w"}],
        }
    },
}
LAB_AGENT = AgentSpec("scout_0", "Scout", 4, ("lab",))
SPELLINGS = (CANARY, CANARY[::-1], CANARY.encode().hex(), "Y2FuYXJ5LW1jc", "FuYXJ5LW1jcC0", "bmFyeS1tY3AtN")
"""The canary backwards, in hexadecimal and, in part, in base64 at each offset."""


@dataclass
class Played:
    """What is left of some episodes with a hostile server."""

    records: list[ActionRecord]
    trajectories: list[Trajectory]
    prompts: list[str]
    trace: str
    logs: str

    def call(self, name: str) -> ToolCall:
        """The first call of the function ``name``."""
        return next(call for each in self.records for call in each.calls if call.tool == f"lab.{name}")


def play(folder: Path, options: dict[str, Any], functions: tuple[str, ...]) -> Played:
    (folder / "coach.yaml").write_text(yaml.safe_dump(COACH))
    (folder / "coach.jinja").write_text("{{ duty }}")
    tools = {"lab": {"use": "mcp", "options": options, "limits": LIMITS}}
    coach = {"rubric": "rubric.yaml", "questions": "coach.yaml", "truth": ["scout_0"]}
    card = tool_card(folder, tools, ("lab",), coach=coach)
    lines: list[str] = []
    handler = logging.Handler(level=0)
    handler.emit = lambda record: lines.append(f"{handler.format(record)}")  # type: ignore[method-assign]
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(0)
    episode, store = Episode(card, sandbox="null"), TraceStore(folder / "trace.jsonl")
    prompts, played = Prompts(card), Played([], [], [], "", "")
    try:
        for i in range(0, len(functions), 4):
            episode.reset(seed=i)
            for at, name in enumerate(functions[i : i + 4], i):
                played.records.append(
                    episode.act(fence(f"lab.{name}", f"say {name} {at}") if name != "lie" else LIE)
                )
            episode.act("found: Tholm, so \\boxed{Tholm}")
            played.trajectories.append(episode.trajectory)
            store.append(episode.trajectory)
            played.prompts += ["\n".join(prompts.write(e, "n", labels=True).parts) for e in episode.evidence]
    finally:
        episode.close()
        store.close()
        root.removeHandler(handler)
        root.setLevel(level)
    played.trace, played.logs = (folder / "trace.jsonl").read_text(), "\n".join(lines)
    assert [each.actions for each in read(folder / "trace.jsonl")] == [
        each.actions for each in played.trajectories
    ]
    return played


LIE = '<tool_call>{"name": "lab.lie", "arguments": {"text": "x"}}</tool_call>'


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_TOKEN", CANARY)
        patch.setenv("OTHER_SECRET", "another-secret-of-the-host")
        yield


@pytest.fixture(scope="module")
def stdio(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("stdio")
    command = [sys.executable, str(HELPERS / "hostile_mcp.py")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, str(folder))
        yield play(folder, {"command": command, "env": {"TOKEN": "$LAB_TOKEN"}}, STDIO)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(HELPERS / "hostile_mcp.py"), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.kill()


@pytest.fixture(scope="module")
def http(environment: None, address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("http")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, str(folder))
        yield play(folder, {"url": address, "headers": {"Authorization": "Bearer $LAB_TOKEN"}}, HTTP)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status", "attester"),
    [
        ("echo", "ok", "server"),
        ("leak", "ok", "server"),
        ("inject", "ok", "server"),
        ("fail", "error", "server"),
        ("lie", "error", "server"),
        ("garbage", "error", "server"),
        ("die", "error", "server"),
        ("babble", "output_limit", "host"),
    ],
)
def test_a_process_that_misbehaves_has_a_status(stdio: Played, name: str, status: str, attester: str) -> None:
    call = stdio.call(name)
    assert (call.status, call.attester) == (status, attester)
    assert call.seconds < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status"), [("echo", "ok"), ("inject", "ok"), ("flood", "output_limit"), ("stall", "timeout")]
)
def test_a_server_over_http_that_misbehaves_has_a_status(http: Played, name: str, status: str) -> None:
    assert http.call(name).status == status


@pytest.mark.slow
def test_a_server_that_ended_serves_the_next_call(stdio: Played, http: Played) -> None:
    for played in (stdio, http):
        echoes = [call for each in played.records for call in each.calls if call.tool == "lab.echo"]
        assert [call.status for call in echoes] == ["ok", "ok"]
        assert all(each.outcome is not None and each.outcome.success for each in played.trajectories)


@pytest.mark.slow
def test_no_score_depends_on_what_a_server_says_or_how_it_fails(stdio: Played, http: Played) -> None:
    for played in (stdio, http):
        assert {call.status for each in played.records for call in each.calls} > {"ok", "output_limit"}
        assert {each.verdict.score for each in played.records} == {10.0}
        assert {each.verdict.reasoning for each in played.records} == {"it asked something new"}


@pytest.mark.slow
def test_no_secret_is_anywhere(stdio: Played, http: Played) -> None:
    for played in (stdio, http):
        everything = [repr(played.trajectories), played.trace, *played.prompts, played.logs]
        for spelling in SPELLINGS:
            assert [i for i, text in enumerate(everything) if spelling in text] == []
        assert "another-secret-of-the-host" not in "".join(everything)
    leaked = stdio.call("leak").text
    assert "TOKEN=[$LAB_TOKEN]" in leaked
    names = set(re.findall(r"(?m)^(\w+)=", leaked))
    assert names <= {"PATH", "TOKEN", "LC_CTYPE", "PYTHONPATH"}  # Python sets the third itself


@pytest.mark.slow
def test_a_coach_sees_each_call_with_its_attester_and_no_instruction(stdio: Played) -> None:
    (prompt,) = [prompt for prompt in stdio.prompts if '"tool": "lab.inject"' in prompt]
    assert '"result_attested_by": "server"' in prompt
    assert "result of tool call 1 (what a server outside says)" in prompt
    assert INJECTION not in prompt
    assert "‹‹‹end>>>" in prompt  # fences and invisible marks are escaped
    assert "\u202e" not in prompt
    assert [
        line for line in prompt.split("\n") if line.startswith("<<<") and not line.startswith("<<<n ")
    ] == []


@pytest.mark.slow
def test_a_function_that_nobody_could_name_is_not_offered(stdio: Played) -> None:
    offered = stdio.records[0].messages[0]["content"].split("|")[1:]
    assert "lab.echo" in offered
    assert not any("bad" in name for name in offered)


def test_a_server_that_cannot_start_again_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST, str(tmp_path))
    options = {
        "command": [sys.executable, "-S", str(HELPERS / "small_mcp.py"), str(tmp_path / "flag")],
        "start_s": 20,
    }
    tools = {"lab": {"use": "mcp", "options": options, "limits": LIMITS}}
    episode = Episode(tool_card(tmp_path, tools, ("lab.say",)), sandbox="null")
    episode.reset(seed=0)
    assert episode.act(fence("lab.say", "a")).calls[0].text == "said"
    gone = episode.act(fence("lab.say", "die"))
    assert gone.calls[0].status == "unavailable"
    assert gone.verdict.status == "abstain"
    assert gone.unavailable.startswith("lab.say: the MCP server cannot be used")
    last = episode.act("found: Tholm")
    assert episode.outcome is not None
    assert (episode.outcome.status, episode.outcome.success) == ("unavailable", False)
    assert last.verdict.score is None  # nobody's fault: the whole episode counts for nothing
    episode.close()


def test_a_fresh_server_that_is_gone_voids_the_episodes_that_call_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not end a training run at ``reset``."""
    monkeypatch.setenv(TRUST, str(tmp_path))
    flag = tmp_path / "flag"
    command = [sys.executable, "-S", str(HELPERS / "small_mcp.py"), str(flag)]
    options = {"command": command, "start_s": 20, "fresh": True}
    tools = {"lab": {"use": "mcp", "options": options, "limits": LIMITS}}
    episode = Episode(tool_card(tmp_path, tools, ("lab.say",)), sandbox="null")
    said = []
    for seed, there in enumerate((True, True, False, True)):
        if there:
            flag.unlink(missing_ok=True)  # else it refuses to start
        episode.reset(seed=seed)
        said.append(episode.act(fence("lab.say", "a")).calls[0].status)
        flag.touch()
    assert said == ["ok", "ok", "unavailable", "ok"]
    episode.close()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "No such file or directory"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], r"no greeting within 0\.5 s"),
        ([sys.executable, "-c", "print('hello')"], "cannot be used"),
        ([sys.executable, "-c", "while True: print('x' * 100000)"], "more than 4 MiB"),
    ],
)
def test_a_server_that_does_not_greet_is_an_error_with_a_remedy(command: list[str], words: str) -> None:
    tool = McpTool(command=command, start_s=0.5 if "sleep" in command[-1] else 20, cwd=os.getcwd())
    with pytest.raises(ToolError, match=f"{words}.*Check its command or url"):
        tool.open()
    tool.close()


def test_nothing_of_a_server_is_left(tmp_path: Path) -> None:
    program = "import subprocess, sys, time; subprocess.Popen(['sleep', '987.25']); time.sleep(60)"
    tool = McpTool(command=[sys.executable, "-S", "-c", program], start_s=0.5, cwd=str(tmp_path))
    with pytest.raises(ToolError):
        tool.open()
    deadline = time.monotonic() + 5
    while _running("987.25") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _running("987.25")


def _running(word: str) -> bool:
    return any(word in path.read_bytes().decode("utf-8", "replace") for path in _commands())


def _commands() -> Iterator[Path]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            path.read_bytes()
        except OSError:
            continue
        if b"pytest" not in path.read_bytes():
            yield path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either command"),
        ({"command": ["a"], "url": "http://b"}, "either command"),
        ({"command": "python server.py"}, "must be a list of texts"),
        ({"command": []}, "must name a program"),
        ({"url": "ftp://b"}, "must begin with http"),
        ({"url": "http://b", "inherit": ["HOME"]}, "an address takes headers"),
        ({"command": ["a"], "inherit": ["NO_SUCH_VARIABLE"]}, "NO_SUCH_VARIABLE, which is not set"),
        ({"command": ["a"], "inherit": ["LAB_API_KEY"]}, r"write env: \{LAB_API_KEY: \$LAB_API_KEY\}"),
        ({"command": ["a"], "functions": "echo"}, "must be a list of texts"),
        ({"command": ["a"], "start_s": 0}, "start_s=0"),
        ({"command": ["a"], "fresh": "yes"}, "fresh='yes'"),
    ],
)
def test_wrong_options_are_refused(options: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        McpTool(**options)


PLAIN = """
import json, os, sys
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize" and (size := os.environ.get("SIZE")):
        answer = {"error": {"code": 1, "message": "x" * int(size) + os.environ["TOKEN"] + "y" * 3000}}
    elif asked["method"] == "initialize":
        about = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        answer = {"result": {**about, "serverInfo": {"name": "s", "version": "1"}}}
    elif asked["method"] == "tools/list":
        shape = {"type": "object", "properties": {"text": {"type": ["string"] + ["obey\\n"] * 300}}}
        functions = [{"name": name, "inputSchema": shape} for name in ("add", "closed", "ended")]
        answer = {"result": {"tools": functions}}
    elif asked["method"] != "tools/call":
        answer = {"error": {"code": -32601, "message": "no such method"}}
    elif asked["params"]["name"] == "add":
        count += 1
        answer = {"result": {"content": [{"type": "text", "text": str(count)}]}}
    elif asked["params"]["name"] == "closed":
        answer = {"error": {"code": -32000, "message": "the scale is locked"}}
    else:
        answer = {"error": {"code": 7, "message": "Session terminated"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def plain_server(**env: str) -> Toolbox:
    options = {"command": [sys.executable, "-c", PLAIN], "env": env, "cwd": os.getcwd()}
    return Toolbox([ToolEntry("lab", "mcp", options, CallLimits())], Team((LAB_AGENT,)))


@pytest.mark.parametrize("size", [0, 150, 170, 190, 480, 960, 2000])
def test_no_part_of_a_secret_is_in_an_error_that_is_cut(environment: None, size: int) -> None:
    box = plain_server(TOKEN="$LAB_TOKEN", SIZE=str(size))
    with pytest.raises(ToolError) as caught:
        box.open()
    box.close()
    said = str(caught.value)
    assert len(said) < 1500
    assert not any(CANARY[at : at + 6] in said for at in range(len(CANARY) - 5))


def test_an_error_of_a_living_server_is_no_end_of_it() -> None:
    """-32000 is also what servers use for ordinary errors. The server went away, with all that it knew."""
    box = plain_server()
    box.open()
    calls = [Written(f"lab.{name}", {"text": "x"}) for name in ("add", "closed", "add", "ended", "add")]
    said = [(call.status, call.text) for call in box.carry_out(calls, LAB_AGENT, (), 0)]
    (described, *_) = box.described(LAB_AGENT)
    box.close()
    assert [status for status, _ in said] == ["ok", "error", "ok", "error", "ok"]
    assert [text for _, text in said[::2]] == ["1", "2", "3"]
    assert "the scale is locked" in said[1][1]
    assert len(described["arguments"][0]["type"]) < 500
    assert "\n" not in described["arguments"][0]["type"]
