"""Causes in messages that a real server (469de08) sent, and in what programs print."""

from __future__ import annotations

import pytest

from mappa_env.sandbox.fusion.causes import cause_of, last_line
from mappa_env.sandbox.fusion.request import source

CODE = source("wrapper.py")
EIO = "[Errno 5] Input/output error"
ACTIVATE = (
    "Command 'bash -c \"source /conda/bin/activate sandbox-runtime && which python\"' returned non-zero exit "
    "status 1."
)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (f"exception on running code {CODE}: {ACTIVATE} None", ACTIVATE),
        (f"exception on running code {CODE}: {EIO} None", EIO),
        (f"exception on running command python /tmp/a/b.py: {EIO} | None", EIO),
        (f"{CODE} failed: no cgroup", "failed: no cgroup"),
        ("no cgroup", "no cgroup"),
        ("", "no reason given"),
        (CODE, "no reason given"),
    ],
)
def test_a_message_of_the_server(message: str, cause: str) -> None:
    assert cause_of(message, CODE) == cause


def test_a_long_cause_is_cut_at_its_end() -> None:
    cause = cause_of(f"exception on running code {CODE}: no space {'x' * 9999} None", CODE)
    assert cause.startswith("no space xxx")
    assert len(cause) < 500


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        (
            'Traceback (most recent call last):\n  File "/tmp/a/b.py", line 50, in <module>\n    main()\n'
            "OSError: [Errno 28] No space left on device\n",
            "OSError: [Errno 28] No space left on device",
        ),
        (
            '  File "/tmp/b.py", line 3\n    x := 1\n      ^\nSyntaxError: invalid syntax\n  a hint\n\n',
            "SyntaxError: invalid syntax\n  a hint",
        ),
        ("/bin/bash: line 1: python: command not found\n", "/bin/bash: line 1: python: command not found"),
        ("  only source\n", "no reason given"),
        ("", "no reason given"),
    ],
)
def test_what_a_program_printed_last(stderr: str, cause: str) -> None:
    assert last_line(stderr) == cause
