"""The wall time of a run that several sessions worked on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mappa_rl.errors import RunError
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.stopwatch import Stopwatch
from mappa_rl.telemetry.times import FILE, KeptTimes, times_of


def session(phases: dict[str, float]) -> Progress:
    """One that is over, and spent all its time in the sandbox."""
    now = [0.0]
    progress = Progress("")
    progress.watch = Stopwatch(lambda: now[0])
    for name, seconds in phases.items():
        progress.watch.phase(name)
        with progress.watch.at("sandbox"):
            now[0] += seconds
    progress.watch.phase("")
    progress.seconds = dict(phases)
    return progress


def test_the_times_of_all_sessions_count(tmp_path: Path) -> None:
    KeptTimes(tmp_path, session({"warm start": 5.0, "training": 2.0})).keep()
    second = KeptTimes(tmp_path, session({"training": 3.0}))
    total = second.total()
    assert total.phases == {"warm start": 5.0, "training": 5.0}
    assert {name: cells["sandbox"] for name, cells in total.work.items()} == total.phases
    assert total.busy == total.work
    second.keep()
    second.keep()  # a session counts once, however often it writes
    assert KeptTimes(tmp_path, session({})).total() == total


def test_the_phase_under_way_counts_up_to_now() -> None:
    with Progress("") as progress:
        progress.phase("training")
        one = times_of(progress).phases["training"]
        assert 0 < one <= times_of(progress).phases["training"]
    assert progress.seconds["training"] >= one


@pytest.mark.parametrize("text", ["", "[]", '{"phases": {"training": "long"}}'])
def test_a_file_that_holds_no_times_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(RunError, match=FILE):
        KeptTimes(tmp_path, session({}))
