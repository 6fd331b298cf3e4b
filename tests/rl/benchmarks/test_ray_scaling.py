"""When the benchmark of environments on more nodes fails: with figures that are given to it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
import ray_scaling


def fails(
    monkeypatch: pytest.MonkeyPatch, *words: str, work: dict[str, Any] | None = None, **death: Any
) -> int:
    """Exit status of the benchmark; ``work``: other figures of four nodes with CPU work."""

    def scaling(counts: tuple[int, ...], episodes: int, slots: int, works: bool) -> list[dict[str, Any]]:
        figures = {"seconds": 9.0, "episodes_per_s": 1.0, "perfect_s": 8.0, "perfect_efficiency": 0.95}
        row = {"nodes": counts[-1], "work": works, "efficiency": 0.93, "cpu": 0.5, **figures}
        return [row | (work or {} if works else {})]

    def killed(count: int, episodes: int, slots: int) -> dict[str, Any]:
        figures = {"undisturbed_s": 60.0, "killed_s": 62.0, "allowed_s": 75.0, "same": True}
        return {"nodes": count, **figures, **death}

    monkeypatch.setattr(ray_scaling, "scaling", scaling)
    monkeypatch.setattr(ray_scaling, "killed", killed)
    monkeypatch.setattr(sys, "argv", ["ray_scaling.py", *words])
    return ray_scaling.main()


def test_it_says_which_target_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(monkeypatch) == 0
    assert "targets: met" in capsys.readouterr().out
    assert fails(monkeypatch, work={"efficiency": 0.8}) == 1
    assert "MISSED: efficiency 0.80 with CPU work, target 0.9\n" in capsys.readouterr().out
    assert fails(monkeypatch, killed_s=80.0) == 1
    assert "MISSED: a killed node cost 5.0 s more than allowed\n" in capsys.readouterr().out
    assert fails(monkeypatch, same=False) == 1


def test_a_busy_machine_and_few_episodes_miss_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fails(monkeypatch, work={"efficiency": 0.8, "cpu": 0.97}) == 0
    assert fails(monkeypatch, "--quick", work={"efficiency": 0.5}, killed_s=80.0) == 0
    assert fails(monkeypatch, "--quick", same=False) == 1
