"""W&B and Weave beside metrics.jsonl: failures are told once and end nothing, keys are shown nowhere."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mappa_rl.config import load_config
from mappa_rl.errors import RunError
from mappa_rl.telemetry.sinks import read_metrics, sinks_of
from mappa_rl.telemetry.tracking import WANDB_ID, missing_key
from mappa_rl.training.preflight.packages import tracking_problems
from synthetic_run import trajectory

SECRET = "0123456789abcdef-not-a-real-key"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)


class FakeWandb(ModuleType):
    """Stands in for the package: keeps what it is given, and fails from the ``fails_at``-th call on."""

    def __init__(self, fails_at: int = 10**9) -> None:
        super().__init__("wandb")
        self.__spec__ = importlib.util.spec_from_loader("wandb", None)
        self.begun: list[dict[str, Any]] = []
        self.rows: dict[int, dict[str, float]] = {}
        self.calls, self.fails_at, self.step = 0, fails_at, 0

    def Settings(self, **options: Any) -> dict[str, Any]:
        return options

    def init(self, **options: Any) -> FakeWandb:
        self._count()
        self.begun.append(options)
        return self

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._count()
        self.rows[step] = dict(values)
        self.step = step

    def finish(self) -> None:
        self._count()

    def _count(self) -> None:
        self.calls += 1
        if self.calls >= self.fails_at:
            raise ConnectionError(f"no route to host with {SECRET}")


def fake(monkeypatch: pytest.MonkeyPatch, **options: int) -> FakeWandb:
    module = FakeWandb(**options)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def config_of(*overrides: str) -> Any:
    return load_config("demo", ["run.tensorboard=false", *overrides])


@pytest.mark.usefixtures("key")
def test_a_resumed_run_is_the_same_run_and_a_step_logged_twice_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, notes = fake(monkeypatch), list[str]()
    config = config_of("run.wandb=teams", "algo.kl_coef=0.02")
    for first, resumed_at in ((1, None), (2, 1)):
        with sinks_of(config, tmp_path, notes.append, resumed_at=resumed_at) as sinks:
            for step in range(first, first + 2):
                sinks.log(step, {"success": step / 10})
    assert module.rows == {1: {"success": 0.1}, 2: {"success": 0.2}, 3: {"success": 0.3}}
    begun, again = module.begun
    assert begun["id"] == again["id"] == json.loads((tmp_path / WANDB_ID).read_text())["id"]
    assert (begun["project"], begun["resume"], begun["dir"]) == ("teams", "allow", str(tmp_path))
    assert begun["config"]["algo"]["kl_coef"] == 0.02
    assert notes == []
    assert SECRET not in str(begun) + (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("fails_at", [1, 2, 3, 5])
def test_a_sink_that_fails_is_reported_once_and_the_run_continues(
    fails_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, notes = fake(monkeypatch, fails_at=fails_at), list[str]()
    with sinks_of(config_of("run.wandb=teams"), tmp_path, notes.append) as sinks:
        for step in range(1, 4):
            sinks.log(step, {"success": 0.5})
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3]
    (said,) = notes
    assert said.startswith("W&B failed and receives nothing more; the run continues")
    assert "ConnectionError: no route to host with ***" in said
    assert SECRET not in said
    assert module.calls == fails_at


def test_what_is_not_there_is_said_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    fake(monkeypatch)
    with pytest.raises(RunError, match=r"no key for api\.wandb\.ai: set WANDB_API_KEY"):
        sinks_of(config_of("run.wandb=teams"), tmp_path / "run", print)
    assert any("set WANDB_API_KEY" in p.message for p in tracking_problems(config_of("run.wandb=teams")))
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {SECRET}\n")
    assert list(missing_key("wandb")) == []
    (tmp_path / "netrc").unlink()
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert list(missing_key("wandb")) == []
    (said,) = tracking_problems(config_of("run.weave=teams"))[-1:]
    assert said.message.startswith("Weave has no key for api.wandb.ai")  # it has no offline mode
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name in ("wandb", "weave") else real(name, *more),
    )
    for name in ("wandb", "weave"):
        with pytest.raises(RunError, match=f"pip install {name}"):
            sinks_of(config_of(f"run.{name}=teams"), tmp_path / "run", print)
        assert any(
            f"pip install {name}" in p.message for p in tracking_problems(config_of(f"run.{name}=teams"))
        )


@pytest.mark.usefixtures("key")
def test_weave_gets_a_call_per_action_under_one_per_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a stand-in for the package."""
    calls: list[tuple[str, dict[str, Any], Any]] = []
    ended: dict[int, Any] = {}

    def create_call(op: str, inputs: dict[str, Any], parent: Any = None, *, use_stack: bool) -> int:
        assert not use_stack
        calls.append((op, inputs, parent))
        return len(calls) - 1

    client = SimpleNamespace(create_call=create_call, finish_call=ended.__setitem__)
    module: Any = ModuleType("weave")
    module.__spec__ = importlib.util.spec_from_loader("weave", None)
    module.init, module.finish = lambda project: client, lambda: None
    monkeypatch.setitem(sys.modules, "weave", module)
    with sinks_of(config_of("run.weave=teams"), tmp_path, print) as sinks:
        sinks.episodes(3, [trajectory(0, True), trajectory(1, False)])
    assert [op for op, _, _ in calls] == ["episode", "solver_0", "coder_0", "verifier_0"] * 2
    assert [parent for _, _, parent in calls] == [None, 0, 0, 0, None, 4, 4, 4]
    assert calls[0][1]["step"] == 3
    assert ended[0] == {"score": 1.0, "success": True}
    assert ended[2]["verdict"] == {"status": "ok", "score": 10.0}
    assert ended[6]["tool"] == "error"
    assert len(ended) == len(calls)
