"""docs/sandbox.md: its tables match the code, and its Docker example implements the sandbox protocol.

A stub replaces the Docker client and runs the container's command on this machine. So these tests check the
example's requests to Docker and its handling of the answers, but not gVisor's isolation.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from mappa_env.sandbox import SANDBOXES, Limits, Sandbox, make_sandbox
from mappa_env.sandbox.process import libraries
from mappa_env.types import RunStatus
from paths import ROOT

PAGE = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")

STUB = '''#!{python} -S
"""A stub, not Docker. The files ``broken``, ``created`` and ``oom`` next to it control its behaviour."""
import json, os, subprocess, sys
place = os.path.dirname(os.path.abspath(__file__))
has = lambda name: os.path.exists(os.path.join(place, name))
verb, *words = sys.argv[1:]
with open(os.path.join(place, "log"), "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if verb == "run":
    image = words.index("agents")
    options = [word.partition("=")[::2] for word in words[:image]]
    state = os.path.join(place, dict(options)["--name"])
    if has("broken"):
        sys.exit("Cannot connect to the Docker daemon")
    with open(state, "w") as file:
        file.write("created false" if has("created") else "running false")
    if has("created"):
        sys.exit(125)
    volumes = dict(value.split(":")[1::-1] for name, value in options if name == "--volume")
    variables = dict(value.split("=", 1) for name, value in options if name == "--env")
    command = [sys.executable, *(volumes.get(word, word) for word in words[image + 2 :])]
    code = subprocess.run(command, cwd=volumes["/work"], env=variables).returncode
    with open(state, "w") as file:
        file.write("exited " + str(has("oom")).lower())
    sys.exit(code if code >= 0 else 128 - code)
state = os.path.join(place, words[-1])
if not os.path.exists(state):
    sys.exit("No such object")
if verb == "inspect":
    print(open(state).read())
else:
    os.remove(state)
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stub = tmp_path / "docker"
    stub.write_text(STUB.replace("{python}", sys.executable))
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def sandbox(place: Path) -> Sandbox:
    example = re.search(r"```python\n(\"\"\"One gVisor.*?)```", PAGE, re.DOTALL)
    assert example is not None
    file = place / "docker_sandbox.py"
    file.write_text(example[1], encoding="utf-8")
    return make_sandbox({"name": f"{file}:DockerSandbox", "libraries": libraries(sys.executable)[0]})


def log(place: Path) -> list[list[str]]:
    return [json.loads(line) for line in (place / "log").read_text().splitlines()]


def test_the_example_runs_an_action(sandbox: Sandbox, place: Path) -> None:
    code = "import random\nprint(random.random(), open('in').read())\nopen('out', 'w').write('x')"
    results = []
    for _ in "ab":
        with sandbox.open_workspace() as workspace:
            workspace.put("in", b"given")
            results.append(sandbox.run(workspace, code, Limits(wall_s=120), seed=3))
    assert [result.status for result in results] == ["ok", "ok"], results
    assert results[0].stdout == results[1].stdout
    assert results[0].stdout.endswith(" given\n")
    assert [(file.path, file.op) for file in results[0].files] == [("out", "created")]
    assert results[0].isolation == sandbox.isolation == "gvisor"
    run, inspect, remove = log(place)[:3]
    assert {"--runtime=runsc", "--network=none", "--read-only", "--cap-drop=ALL"} <= set(run)
    assert "random" not in " ".join(run)
    assert (inspect[0], remove[:2]) == ("inspect", ["rm", "--force"])
    assert f"--name={remove[2]}" in run


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        ("print('kept')\nexit(125)", Limits(wall_s=120), "error"),
        ("print('kept')\nwhile True: pass", Limits(wall_s=3), "timeout"),
        ("print('kept')\nimport os; os.kill(os.getpid(), 9)", Limits(wall_s=120), "killed"),
        ("print('kept')\nx = ' ' * (4 << 30)", Limits(wall_s=120, memory_mb=512), "memory"),
        (
            "print('kept')\nfor n in 'ab': open(n, 'wb').write(bytes(3 << 20))",
            Limits(wall_s=120, disk_mb=4),
            "disk_limit",
        ),
    ],
)
def test_the_example_names_the_limit_that_was_exceeded(
    sandbox: Sandbox, place: Path, code: str, limits: Limits, status: str
) -> None:
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, code, limits)
    assert result.status == status, result
    if status != "timeout":  # a slow machine may need them all for the start
        assert result.stdout == "kept\n"
    assert log(place)[-1][0] == "rm"


@pytest.mark.parametrize(
    ("fault", "status"), [("broken", "unavailable"), ("created", "unavailable"), ("oom", "memory")]
)
def test_the_example_believes_the_daemon(sandbox: Sandbox, place: Path, fault: str, status: str) -> None:
    (place / fault).touch()
    with sandbox.open_workspace() as workspace:
        assert sandbox.run(workspace, "print(1)", Limits(wall_s=120)).status == status


def test_the_example_without_docker(sandbox: Sandbox, place: Path) -> None:
    (place / "docker").unlink()
    with sandbox.open_workspace() as workspace:
        result = sandbox.run(workspace, "print(1)", Limits())
    assert result.status == "unavailable"
    assert "docker cannot be started" in result.stderr


def test_the_page_names_every_limit_status_and_sandbox() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE))
    limits = Limits()
    assert {name: float(getattr(limits, name)) for name in Limits.__slots__} == {
        name: float(value) for name, value in rows.items() if name in Limits.__slots__
    }
    for status in get_args(RunStatus):
        assert f"`{status}`" in PAGE
    for name in SANDBOXES.builtin:
        assert f'`"{name}"`' in PAGE
