"""``mappa-env check`` says everything that is wrong, however narrow the terminal is."""

from __future__ import annotations

import pytest

from mappa_env.cli import main
from mappa_env.testing import Result


def test_a_long_reason_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "/a/folder" + "/of/a/long/path" * 10 + "/tool.jinja"
    results = [Result("prompts", False, reason, 0.1)]
    monkeypatch.setattr("mappa_env.commands.check.begin", lambda *_, **__: ("mappa/Own-v0", iter(results)))
    assert main(["check", "own"]) == 1
    out = capsys.readouterr().out
    assert reason in "".join(out.replace("\u2502", "").split())
