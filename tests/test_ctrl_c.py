"""Tests of Ctrl-C work the same when pytest itself was started with SIGINT ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT

SHOW = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_programs_that_tests_start_can_be_interrupted() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert shown.stdout == "True\n"


@pytest.mark.slow
def test_also_where_sigint_was_inherited_as_ignored() -> None:
    name = test_programs_that_tests_start_can_be_interrupted.__name__
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{Path(__file__)}::{name}"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a shell does to a background job
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.returncode == 0, done.stdout
