"""Memory that runs out: one sentence with the remedy, the last step saved, and the same run in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from killing import SMALL, outcome
from mappa_rl.cli import main
from mappa_rl.engines.hf.engine import HFEngine
from mappa_rl.errors import EngineError, EngineMemoryError, RunError
from mappa_rl.learner.learner import Learner
from mappa_rl.memory import is_out_of_memory
from mappa_rl.training.exhausted import resumable

IMPOSSIBLE = 10**15
"""Numbers for which no machine has room: torch's own error, not one that looks like it."""
OVERRIDES = [*SMALL, "run.checkpoint_every=0"]


class Failing:
    """Stands for a method: allocates the impossible in its ``at``-th call of those after ``armed``."""

    def __init__(self, method: Any, at: int) -> None:
        self.method, self.at, self.calls, self.armed = method, at, 0, False

    def __get__(self, instance: Any, owner: type) -> Any:
        return lambda *args, **named: self.call(instance, *args, **named)

    def call(self, instance: Any, *args: Any, **named: Any) -> Any:
        if self.armed:
            self.calls += 1
            if self.calls == self.at:
                torch.empty(IMPOSSIBLE)
        return self.method(instance, *args, **named)


def train(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, at: int, out: Path, start: Path) -> int:
    """A run in which ``method`` fails in the ``at``-th call after the first step's update."""
    with monkeypatch.context() as patch:
        failing = Failing(getattr(owner, method), at)
        patch.setattr(owner, method, failing)
        step = Learner.step

        def arm(learner: Learner, *args: Any, **named: Any) -> Any:
            found = step(learner, *args, **named)
            failing.armed = True
            return found

        if method != "step":
            patch.setattr(Learner, "step", arm)
        else:
            failing.armed = True
        return main(["train", "demo", *OVERRIDES, f"warmstart.path={start}", f"out={out}"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", "demo", *OVERRIDES, f"out={out}"]) == 0
    return out


@pytest.mark.slow
def test_an_engine_out_of_memory_loses_no_step(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train(monkeypatch, HFEngine, "_run", 8, out, whole / "warmstart") == 1
    shown, said = capsys.readouterr()
    (line,) = said.splitlines()
    assert line.startswith("mappa-rl: Memory ran out while the hf engine continued")
    assert "raise rollout.lockstep_groups" in line
    assert line.endswith(f"then resume with `mappa-rl train --resume {out}`.")
    assert "is saved" in shown
    (saved,) = (path.name for path in (out / "checkpoints").iterdir() if path.name.startswith("step-"))
    assert f"stopped: step {int(saved[-6:])} is saved" in shown
    assert main(["train", "--resume", str(out)]) == 0
    assert outcome(out) == outcome(whole)


@pytest.mark.slow
def test_a_learner_out_of_memory_saves_the_step_before(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three policies the first fails in the second step: nothing has changed since the first."""
    out = tmp_path / "run"
    assert train(monkeypatch, Learner, "step", 4, out, whole / "warmstart") == 1
    shown, said = capsys.readouterr()
    (line,) = said.splitlines()
    assert line.startswith("mappa-rl: Memory ran out (")
    assert "lower optim.tokens_per_micro_batch" in line
    assert "stopped: step 1 is saved" in shown
    assert main(["train", "--resume", str(out)]) == 0
    assert outcome(out) == outcome(whole)


@pytest.mark.slow
def test_a_step_that_is_half_learned_is_not_saved(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second policy fails after the first was updated: the run goes on from its last checkpoint."""
    out = tmp_path / "run"
    assert train(monkeypatch, Learner, "step", 5, out, whole / "warmstart") == 1
    shown, _ = capsys.readouterr()
    assert "the update under way was not completed; there is no checkpoint yet" in " ".join(shown.split())
    assert main(["train", "--resume", str(out)]) == 0
    assert outcome(out) == outcome(whole)


def test_torchs_errors_for_memory_are_told_from_others() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(IMPOSSIBLE)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert is_out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as caught:
        torch.zeros(2, 3) @ torch.zeros(2, 3)
    assert not is_out_of_memory(caught.value)
    assert not is_out_of_memory(EngineError("vLLM refused a request"))


def test_the_sentence_names_the_run_to_resume(tmp_path: Path) -> None:
    with (
        pytest.raises(RunError, match=r"^no room: lower x, then start the run again\.$"),
        resumable(tmp_path),
    ):
        raise EngineMemoryError("no room: lower x")
    with pytest.raises(EngineError, match=r"^other$"), resumable(tmp_path):
        raise EngineError("other")
