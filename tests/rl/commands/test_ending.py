"""A signal that is passed on leaves a process the time to save its work."""

from __future__ import annotations

import signal
import subprocess
import sys

from mappa_rl.commands.ending import end_tree

SLOW = """
import signal, sys, time

def save(*_):
    time.sleep(3)
    print("saved", flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_process_without_children_may_save_its_work() -> None:
    words = [sys.executable, "-c", SLOW]
    with subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        end_tree(process, signal.SIGTERM)
        assert process.stdout.read() == b"saved\n"
    assert process.returncode == 143


def test_without_a_signal_it_ends_at_once() -> None:
    words = [sys.executable, "-c", SLOW]
    with subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_tree(process, None)
    assert process.returncode == -signal.SIGKILL
