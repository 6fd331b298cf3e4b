"""A checkpoint's weights for those that only play."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from learner_helpers import make_learner
from mappa_rl.config import Lora, Model
from mappa_rl.errors import CheckpointError
from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.rollout.policies import Policies
from mappa_rl.training.load_weights import load_trained
from team_policies import policies_of

TEAM = ("solver_0", "coder_0")


def make(kind: str, frozen: tuple[str, ...] = (), rank: int = 2) -> Policies:
    tokenizer = train_tokenizer(["1 + 1 = 2"], Model(vocab_size=261))
    model = tiny_qwen3(tokenizer, Model(hidden=16, heads=2, kv_heads=1, mlp=16), seed=3)
    policy_map = PolicyMap.from_spec(kind, TEAM, frozen)
    return policies_of(
        policy_map, model, ChatTokenizer(tokenizer), lora=Lora(rank=rank, alpha=4, targets=["q_proj"])
    )


def save(policies: Policies, folder: Path) -> Path:
    """Train nothing, but move what would be trained, and save it."""
    learners = {name: make_learner(policies[name].model, 1e-3) for name in policies.map.trainable}
    with torch.no_grad():
        for learner in learners.values():
            for parameter in learner.model.parameters():
                if parameter.requires_grad:
                    parameter += torch.rand_like(parameter)
    return Checkpoints(folder, keep=2).save(4, learners, {"step": 4})


@pytest.mark.parametrize("kind", ["separate", "lora"])
def test_policies_become_those_of_the_checkpoint(kind: str, tmp_path: Path) -> None:
    trained, fresh = make(kind, ("coder_0",)), make(kind, ("coder_0",))
    path = save(trained, tmp_path)
    load_trained(fresh, path)
    for name in TEAM:
        own, wanted = fresh[name].model.state_dict(), trained[name].model.state_dict()
        assert own.keys() == wanted.keys()
        assert all(torch.equal(own[key], wanted[key]) for key in own)
    assert fresh["solver_0"].engine.version == 4


def test_another_model_or_no_weights_are_refused(tmp_path: Path) -> None:
    path = save(make("lora"), tmp_path / "lora")
    with pytest.raises(CheckpointError, match="does not fit this model"):
        load_trained(make("lora", rank=3), path)
    shutil.rmtree(path / "policies" / "solver_0" / "adapter")
    with pytest.raises(CheckpointError, match="solver_0 does not fit"):
        load_trained(make("lora"), path)
