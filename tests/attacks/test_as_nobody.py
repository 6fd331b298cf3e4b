"""Runs the attacks again as an ordinary user, without root, capabilities or preparation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attacks.as_nobody import CLOSED, NOBODY

HERE = Path(__file__).parent
ACCESS = ("read", "write", "links", "network", "processes", "neighbours", "kernel", "state")
"""Test files about what the code may reach, whose results depend on the user most."""
ANSWERS = ("answers",)
AMOUNTS = ("memory", "disk", "output", "exhaustion", "status")
"""Those about how much it may use."""
OTHERS = (
    "artefacts",
    "controls",
    "deception",
    "history",
    "interpreter",
    "names",
    "project",
    "residue",
    "supervisor",
    "survivors",
    "time",
)
LIMIT_S = 1800


def test_no_file_of_attacks_is_left_out() -> None:
    files = {path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")}
    assert files - {"as_nobody"} == {*ACCESS, *ANSWERS, *AMOUNTS, *OTHERS}


@pytest.mark.skipif(
    os.getuid() != 0, reason="needs root, to change user; this run is already the one as an ordinary user"
)
@pytest.mark.parametrize(
    "files",
    [
        ACCESS,
        ANSWERS,
        pytest.param(AMOUNTS, marks=pytest.mark.large),
        pytest.param(OTHERS, marks=pytest.mark.large),
    ],
    ids=["access", "answers", "amounts", "others"],
)
def test_the_list_holds_for_an_ordinary_user(files: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        os.chown(home, NOBODY, NOBODY)
        command = [
            sys.executable,
            str(HERE / "as_nobody.py"),
            sys.executable,
            "-m",
            "pytest",
            *(str(HERE / f"test_{name}.py") for name in files),
            "-k",
            "not canary",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-rf",
            "--tb=short",
        ]
        environment = {
            "HOME": home,
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with open(os.path.join(home, "output"), "w+b") as output:
            child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = child.wait(LIMIT_S)
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                output.seek(0)
                said = output.read().decode("utf-8", "replace")[-6000:]
                print(said)
        if code == CLOSED:
            pytest.skip(
                "other users cannot read the interpreter or the project, and mounts cannot change that"
            )
        assert code == 0, said
