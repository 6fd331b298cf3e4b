"""Where a process of several cannot go on, it ends with one line that names the remedy."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from mappa_rl.config import load_config
from mappa_rl.config.run_folder import write_config
from mappa_rl.errors import EngineMemoryError
from mappa_rl.training import worker


@pytest.mark.parametrize(
    ("rank", "part", "error", "said"),
    [
        ("0", "train", EngineMemoryError("vLLM's cache is too small"), "vLLM's cache is too small, then"),
        ("0", "train", OSError(28, "No space left on device"), "is full: free some space, then"),
        ("1", "follow", MemoryError("can't allocate memory"), "lower optim.tokens_per_micro_batch"),
    ],
)
def test_what_ran_out_is_one_line(
    rank: str,
    part: str,
    error: Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    write_config(load_config("demo", ["run.processes=2"]), tmp_path)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(worker, part, failing)
    monkeypatch.setattr(worker, "start_folder", lambda config, out: out)
    before = [signal.getsignal(number) for number in worker.SIGNALS]
    try:
        with pytest.raises(SystemExit) as ended:
            worker.main(tmp_path)
    finally:
        for number, handler in zip(worker.SIGNALS, before, strict=True):
            signal.signal(number, handler)
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mappa-rl: ")
    assert said in line
    assert f"resume with `mappa-rl train --resume {tmp_path}`." in line


def test_other_errors_keep_their_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    write_config(load_config("demo"), tmp_path)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(worker, "train", failing)
    with pytest.raises(KeyError):
        worker.main(tmp_path)
