"""Checkpoints: exact, atomic, and clear about what is wrong."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from learner_helpers import make_batch, make_model, parameters
from transformers import Qwen3ForCausalLM

from mappa_rl.checkpoint import Checkpoints
from mappa_rl.errors import CheckpointError
from mappa_rl.learner import Learner
from mappa_rl.schedule import Schedule
from mappa_rl.tiny import train_tokenizer


def make_learners(stage: int = 2, seed: int = 0) -> dict[str, Learner]:
    return {
        name: Learner(
            make_model(seed + k), Schedule(3e-3, "cosine", warmup=2, total=40), zero_stage=stage, seed=k
        )
        for k, name in enumerate(("p", "q"))
    }


def train(learners: dict[str, Learner], steps: range) -> list[dict[str, float]]:
    history = []
    for step in steps:
        for learner in learners.values():
            stats = learner.step(*make_batch(6, seed=step), epochs=2, minibatches=2)
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
    store = Checkpoints(tmp_path)
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


def test_saving_does_not_disturb_training(tmp_path):
    saved, plain = make_learners(), make_learners()
    reseed(1)
    train(saved, range(1))
    Checkpoints(tmp_path).save(1, saved, {})
    after = train(saved, range(1, 2))
    reseed(1)
    train(plain, range(1))
    assert train(plain, range(1, 2)) == after


def test_a_policy_is_a_plain_folder(tmp_path):
    learners = make_learners()
    train(learners, range(1))
    tokenizer = train_tokenizer(["1 + 1 = 2"], 261)
    path = Checkpoints(tmp_path).save(1, learners, {}, tokenizers={"p": tokenizer})
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
        "latest", "step-000002", "step-000004", "step-000005",
    ]  # fmt: skip
    assert store.latest() == tmp_path / "step-000005"
    assert store.best() == tmp_path / "step-000002"
    assert store.load({}, store.best()) == {"step": 2}


def test_a_checkpoint_is_found_by_name_or_step(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    with pytest.raises(CheckpointError, match=r"no checkpoint 'latest'; there are the steps \(none\)"):
        store.find("latest")
    store.save(3, {}, {})
    with pytest.raises(
        CheckpointError, match=r"no checkpoint 'best'; there are the steps 3. None has a score"
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
    store = Checkpoints(tmp_path)
    store.save(1, {}, {"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(store, "_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.save(2, {}, {"step": 2})
    assert (tmp_path / ".tmp-step-000002").is_dir()
    assert store.load({}) == {"step": 1}
    store.save(3, {}, {"step": 3})
    assert not list(tmp_path.glob(".tmp-*"))
    (tmp_path / "latest").write_text("step-000099\n")  # the pointer is a hint, not the truth
    assert store.load({}) == {"step": 3}
    (tmp_path / "latest").write_text("../elsewhere\n")
    assert store.latest() == tmp_path / "step-000003"


def test_damage_is_found_before_anything_is_restored(tmp_path):
    learners = make_learners()
    store = Checkpoints(tmp_path)
    path = store.save(1, learners, {})
    train(learners, range(1))
    before = parameters(learners["p"].model)
    weights = path / "policies" / "q" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors should have"):
        store.load(learners)
    weights.unlink()
    with pytest.raises(CheckpointError, match="found None"):
        store.load(learners)
    assert torch.equal(parameters(learners["p"].model), before)


def test_what_does_not_fit_is_refused(tmp_path):
    learners = make_learners()
    store = Checkpoints(tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        store.load(learners)
    path = store.save(1, learners, {})
    with pytest.raises(CheckpointError, match="has policies"):
        store.load({"p": learners["p"]})
    with pytest.raises(CheckpointError, match="zero_stage=2, not 0"):
        store.load(make_learners(stage=0))
    other = {name: Learner(make_model(layers=1), Schedule(1e-3)) for name in ("p", "q")}
    with pytest.raises(CheckpointError, match="does not fit this model"):
        store.load(other)
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        store.load(learners, tmp_path / "step-000009")
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        store.load(learners)
    with pytest.raises(CheckpointError, match="finite"):
        store.save(2, {}, {}, score=float("nan"))
    with pytest.raises(CheckpointError, match="at least 1"):
        Checkpoints(tmp_path, keep=0)
