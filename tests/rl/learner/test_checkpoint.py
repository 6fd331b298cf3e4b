"""Checkpoints: exact, atomic, and clear about what is wrong."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from learner_helpers import make_batch, make_learner, make_model, parameters, take_step
from mappa_rl.config import Model
from mappa_rl.errors import CheckpointError, LearnerError, RunError
from mappa_rl.learner.batch import Batch
from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.models.tiny import train_tokenizer
from mappa_rl.training.exhausted import resumable


def make_learners(stage: int = 2, seed: int = 0) -> dict[str, Learner]:
    return {
        name: make_learner(
            make_model(seed + k),
            Schedule(3e-3, "cosine", warmup=2, total=40, floor=0.0),
            zero_stage=stage,
            seed=k,
            epochs=2,
            minibatches=2,
        )
        for k, name in enumerate(("p", "q"))
    }


def train(learners: dict[str, Learner], steps: range) -> list[dict[str, float]]:
    history = []
    for step in steps:
        for learner in learners.values():
            stats = take_step(learner, *make_batch(6, seed=step))
            history.append({**stats, "noise": random.random() + np.random.rand() + float(torch.rand(()))})
    return history


def reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_resume_is_exact_to_the_bit(tmp_path, stage):
    whole = make_learners(stage)
    reseed(1)
    first = train(whole, range(2))
    store = Checkpoints(tmp_path, keep=2)
    store.save(2, whole, {"step": 2, "note": "é"})
    rest = train(whole, range(2, 4))
    again = make_learners(stage, seed=7)  # other weights and random states, all replaced
    reseed(2)
    train(again, range(1))
    assert store.load(again) == {"step": 2, "note": "é"}
    assert train(again, range(2, 4)) == rest
    assert first != rest
    for name, learner in whole.items():
        assert torch.equal(parameters(learner.model), parameters(again[name].model))
        assert learner.updates == again[name].updates == 16


def test_a_resumed_learner_remembers_the_updates_that_were_skipped(tmp_path):
    samples, advantages, weights = make_batch(4)
    broken = [np.full_like(advantage, np.nan) for advantage in advantages]
    learner, again = (make_learner(make_model(), 1e-2, max_skipped_updates=2) for _ in range(2))
    for _ in range(2):
        take_step(learner, samples, broken, weights)
    learner.save(tmp_path)
    again.load(tmp_path)
    with pytest.raises(LearnerError, match="3 updates in a row, up to update 3"):
        take_step(again, samples, broken, weights)


def test_a_checkpoint_from_before_minibatches_were_drawn_together_loads(tmp_path):
    """It has a random state of each process, and no count of skipped updates."""
    learner, again = (make_learner(make_model(), 1e-2, seed=seed, minibatches=3) for seed in (0, 1))
    learner.save(tmp_path)
    file = tmp_path / "learner.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    del state["skipped"]
    state["random"] = [state["random"], np.random.default_rng(2).bit_generator.state]
    file.write_text(json.dumps(state), encoding="utf-8")
    again.load(tmp_path)
    batch = Batch(*make_batch(9))
    assert again.draw(batch) == learner.draw(batch)


def test_saving_does_not_disturb_training(tmp_path):
    saved, plain = make_learners(), make_learners()
    reseed(1)
    train(saved, range(1))
    Checkpoints(tmp_path, keep=2).save(1, saved, {})
    after = train(saved, range(1, 2))
    reseed(1)
    train(plain, range(1))
    assert train(plain, range(1, 2)) == after


def test_a_policy_is_a_plain_folder(tmp_path):
    learners = make_learners()
    train(learners, range(1))
    tokenizer = train_tokenizer(["1 + 1 = 2"], Model(vocab_size=261))
    path = Checkpoints(tmp_path, keep=2).save(1, learners, {}, tokenizers={"p": tokenizer})
    model = Qwen3ForCausalLM.from_pretrained(path / "policies" / "p" / "model")
    assert torch.equal(parameters(model), parameters(learners["p"].model))
    assert (path / "policies" / "p" / "model" / "tokenizer.json").is_file()
    assert not (path / "policies" / "q" / "model" / "tokenizer.json").exists()


def test_keeps_the_newest_and_the_best(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    assert store.latest() is None
    assert store.best() is None
    for step, score in enumerate([0.1, 0.9, 0.3, None, 0.2], start=1):
        store.save(step, {}, {"step": step}, score=score)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "latest",
        "step-000002",
        "step-000004",
        "step-000005",
    ]
    assert store.latest() == tmp_path / "step-000005"
    assert store.best() == tmp_path / "step-000002"
    assert store.load({}, store.best()) == {"step": 2}


def test_a_checkpoint_is_found_by_name_or_step(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    with pytest.raises(CheckpointError, match=r"no checkpoint 'latest'; steps with a checkpoint: \(none\)"):
        store.find("latest")
    store.save(3, {}, {})
    with pytest.raises(
        CheckpointError, match=r"no checkpoint 'best'; steps with a checkpoint: 3. None has a score"
    ):
        store.find("best")
    store.save(5, {}, {}, score=0.5)
    names = {name: store.intact(name).name for name in ("latest", "best", "3", "5")}
    assert names == {"latest": "step-000005", "best": "step-000005", "3": "step-000003", "5": "step-000005"}
    (tmp_path / "step-000003" / "state.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        store.intact("3")
    store.save(5, {}, {"step": 5, "second": True})
    assert store.load({})["second"]


def test_a_crash_while_saving_leaves_the_last_one(tmp_path, monkeypatch):
    store = Checkpoints(tmp_path, keep=2)
    store.save(1, {}, {"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(store, "_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.save(2, {}, {"step": 2})
    assert not (tmp_path / ".tmp-step-000002").exists()
    (tmp_path / ".tmp-step-000002").mkdir()  # as SIGKILL would leave it
    assert store.load({}) == {"step": 1}
    store.save(3, {}, {"step": 3})
    assert not list(tmp_path.glob(".tmp-*"))
    (tmp_path / "latest").write_text("step-000099\n")  # the pointer is a hint, not the truth
    assert store.load({}) == {"step": 3}
    (tmp_path / "latest").write_text("../elsewhere\n")
    assert store.latest() == tmp_path / "step-000003"


def test_damage_is_found_before_anything_is_restored(tmp_path):
    learners = make_learners()
    store = Checkpoints(tmp_path, keep=2)
    path = store.save(1, learners, {})
    train(learners, range(1))
    before = parameters(learners["p"].model)
    weights = path / "policies" / "q" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: it should have"):
        store.load(learners)
    weights.unlink()
    with pytest.raises(CheckpointError, match="found None"):
        store.load(learners)
    assert torch.equal(parameters(learners["p"].model), before)


@pytest.mark.parametrize("change", [lambda whole: [], lambda whole: {"format": whole["format"]}])
def test_a_damaged_manifest_is_no_checkpoint(tmp_path, change):
    store = Checkpoints(tmp_path, keep=2)
    path = store.save(1, {}, {})
    whole = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(change(whole)))
    (tmp_path / "latest").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="is not a complete checkpoint"):
        store.load({}, path)


def test_what_does_not_fit_is_refused(tmp_path):
    learners = make_learners()
    store = Checkpoints(tmp_path, keep=2)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        store.load(learners)
    path = store.save(1, learners, {})
    with pytest.raises(CheckpointError, match="has policies"):
        store.load({"p": learners["p"]})
    with pytest.raises(CheckpointError, match="zero_stage=2, not 0"):
        store.load(make_learners(stage=0))
    other = {name: make_learner(make_model(layers=1), 1e-3) for name in ("p", "q")}
    with pytest.raises(CheckpointError, match="does not fit this model"):
        store.load(other)
    with pytest.raises(CheckpointError, match="not a complete checkpoint"):
        store.load(learners, tmp_path / "step-000009")
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        store.load(learners)
    with pytest.raises(CheckpointError, match="finite"):
        store.save(2, {}, {}, score=float("nan"))
    with pytest.raises(CheckpointError, match="at least 1"):
        Checkpoints(tmp_path, keep=0)


@pytest.mark.parametrize("name", ["state.json", "random.json"])
def test_a_damaged_file_is_found_before_anything_is_restored(tmp_path, name):
    class Untouched:
        def load(self, folder):
            raise AssertionError("restored before all was read")

    learners = make_learners()
    store = Checkpoints(tmp_path, keep=2)
    path = store.save(1, learners, {"step": 1})
    for text in (b"{", b"7"):
        whole = (path / name).stat().st_size
        (path / name).write_bytes(text.ljust(whole))
        with pytest.raises(CheckpointError, match=rf"{name} is damaged: .* Remove this checkpoint's folder"):
            store.load(dict.fromkeys(learners, Untouched()))


def test_a_damaged_checkpoint_keeps_no_later_one_from_being_saved(tmp_path):
    for most in (0, 1):
        store = Checkpoints(tmp_path / str(most), keep=1, most_mb=most)
        old = store.save(1, {}, {}, score=1.0)
        (old / "manifest.json").write_text("{")
        with pytest.raises(CheckpointError, match="not a complete checkpoint"):
            store.best()
        assert store.save(2, {}, {}, score=0.5) == store.latest() == store.best()
        assert not old.exists()


@pytest.mark.parametrize("saves", [False, True])
def test_a_checkpoint_outlives_a_kill_during_its_replacement(tmp_path, monkeypatch, saves):
    store = Checkpoints(tmp_path, keep=2)
    path = store.save(1, {}, {"run": "first"})
    with monkeypatch.context() as patch:
        renamed = Path.rename

        def killed(self, target):
            if self.name == ".tmp-step-000001":
                raise KeyboardInterrupt
            return renamed(self, target)

        patch.setattr(Path, "rename", killed)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # a kill removes nothing
        with pytest.raises(KeyboardInterrupt):
            store.save(1, {}, {"run": "second"})
    assert store.latest() is None
    again = Checkpoints(tmp_path, keep=2)
    again.save(2, {}, {}) if saves else again.recover()
    assert again.load({}, path) == {"run": "first"}


@pytest.mark.parametrize("stage", [0, 2])
def test_content_that_cannot_be_read_says_how_to_go_on(tmp_path, stage):
    learners = make_learners(stage)
    store = Checkpoints(tmp_path, keep=2)
    store.save(1, learners, {"step": 1})
    path = store.save(2, learners, {"step": 2})
    for file in (path / "policies" / "p" / "engine").rglob("*.pt"):
        file.write_bytes(bytes(file.stat().st_size))  # the right size, and nothing in it
    with pytest.raises(CheckpointError, match=r"cannot be read .*Remove the checkpoint's folder to resume"):
        store.load(learners)
    shutil.rmtree(path)
    assert store.load(learners) == {"step": 1}


def test_a_disk_budget_removes_older_checkpoints_first(tmp_path):
    learners = make_learners()
    one = Checkpoints(tmp_path / "one", keep=1).save(1, learners, {})
    size = sum(file.stat().st_size for file in one.rglob("*") if file.is_file())
    store = Checkpoints(tmp_path / "many", keep=5, most_mb=2.5 * size / 1e6)
    largest = 0
    for step in range(1, 6):
        store.save(step, learners, {"step": step}, score=-float(step))
        largest = max(largest, sum(f.stat().st_size for f in (tmp_path / "many").rglob("*") if f.is_file()))
    left = sorted(path.name for path in (tmp_path / "many").glob("step-*"))
    assert left[0] == "step-000001", "the best one stays"
    assert left[-1] == "step-000005"
    assert len(left) == 2
    assert largest < 3.1 * size  # the best, the newest, and the one that is being written


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_one_sentence_and_loses_nothing(small_disk):
    learners = make_learners()
    store = Checkpoints(small_disk / "checkpoints", keep=2)
    store.save(1, learners, {"step": 1})
    shutil.copytree(store.root / "step-000001", small_disk / "filler")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "more").write_bytes(bytes(max(free - 300_000, 0)))
    full = r"The disk of .* is full: step 2 could not be saved, step-000001 is complete.*--resume"
    with pytest.raises(CheckpointError, match=full) as caught, resumable(small_disk):
        store.save(2, learners, {"step": 2})
    assert "\n" not in str(caught.value)
    assert not list(store.root.glob(".tmp-*")), "the draft does not fill the disk for good"
    assert store.load(learners) == {"step": 1}
    full = r"The disk of .* is full: free some space, then start the run again"
    with pytest.raises(RunError, match=full), resumable(small_disk):
        (small_disk / "metrics").write_bytes(bytes(free))
    (small_disk / "metrics").unlink()
    (small_disk / "more").unlink()
    shutil.rmtree(small_disk / "filler")
    store.save(2, learners, {"step": 2})
    assert store.load(learners) == {"step": 2}
    with pytest.raises(ZeroDivisionError), resumable(small_disk):
        _ = 1 / 0
