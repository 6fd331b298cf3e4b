"""Memory that runs out: one sentence with the remedy, the last step saved, and the same run in the end."""

from __future__ import annotations

import re
from collections.abc import Callable
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


Interrupt = Callable[[type, str, int], tuple[str, str]]


@pytest.fixture
def interrupt(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Interrupt:
    """Calls ``train``, then resumes, which must end like the whole run. Returns what the first run said."""
    out = tmp_path / "run"

    def interrupted(owner: type, method: str, at: int) -> tuple[str, str]:
        assert train(monkeypatch, owner, method, at, out, whole / "warmstart") == 1
        shown, said = capsys.readouterr()
        saved = sorted(int(path.name[-6:]) for path in (out / "checkpoints").glob("step-*"))
        named = re.findall(r"stopped: step (\d+) is saved", shown)
        assert [int(step) for step in named] == saved
        (line,) = said.splitlines()
        assert line.endswith(f"resume with `mappa-rl train --resume {out}`.")
        assert main(["train", "--resume", str(out)]) == 0
        assert outcome(out) == outcome(whole)
        return " ".join(shown.split()), line

    return interrupted


@pytest.mark.slow
def test_an_engine_out_of_memory_loses_no_step(interrupt: Interrupt) -> None:
    shown, line = interrupt(HFEngine, "_run", 8)
    assert line.startswith("mappa-rl: Memory ran out while the hf engine continued")
    assert "raise rollout.lockstep_groups" in line
    assert "is saved" in shown


@pytest.mark.slow
def test_a_learner_out_of_memory_saves_the_step_before(interrupt: Interrupt) -> None:
    """Of three policies the first fails in the second step: nothing has changed since the first."""
    shown, line = interrupt(Learner, "step", 4)
    assert line.startswith("mappa-rl: Memory ran out (")
    assert "lower optim.tokens_per_micro_batch" in line
    assert "stopped: step 1 is saved" in shown


@pytest.mark.slow
def test_a_step_that_is_half_learned_is_not_saved(interrupt: Interrupt) -> None:
    """The second policy fails after the first was updated: the run goes on from its last checkpoint."""
    shown, _ = interrupt(Learner, "step", 5)
    assert "the update under way was not completed; there is no checkpoint yet" in shown


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
