"""Weights that are read one by one and dealt at once equal those that are loaded whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from transformers import Qwen3ForCausalLM

from engine_helpers import make_model
from mappa_rl.distributed import gathered, scattered
from mappa_rl.errors import ConfigError
from mappa_rl.models.loading import DTYPES, load_model, load_scattered


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_dealt_weights_are_those_of_the_folder(
    tied: bool, dtype: Literal["fp32", "bf16"], tmp_path: Path
) -> None:
    made = make_model(tied=tied)
    made.generation_config.eos_token_id = [1, 2]
    made.save_pretrained(tmp_path, max_shard_size="20KB")  # several files
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    whole, parts = load_model(tmp_path, dtype), load_scattered(tmp_path, dtype)
    assert scattered(parts)
    assert not scattered(whole)
    assert all(parameter.numel() == 0 for parameter in parts.parameters())
    assert (parts.lm_head.weight is parts.model.embed_tokens.weight) == tied
    with gathered(parts):
        found, wanted = parts.state_dict(), whole.state_dict()
        assert found.keys() == wanted.keys() == made.state_dict().keys()
        for name, tensor in made.state_dict().items():
            assert found[name].dtype == DTYPES[dtype]
            assert torch.equal(found[name], tensor.to(DTYPES[dtype])), name
            assert torch.equal(found[name], wanted[name]), name
    assert {n: b.tolist() for n, b in parts.named_buffers()} == {
        n: b.tolist() for n, b in whole.named_buffers()
    }
    assert parts.generation_config.eos_token_id == whole.generation_config.eos_token_id == [1, 2]


@pytest.mark.parametrize(("change", "said"), [("rename", "has no weights"), ("resize", "has the shape")])
def test_a_folder_of_another_model_is_refused(change: str, said: str, tmp_path: Path) -> None:
    made: Any = make_model()
    made.save_pretrained(tmp_path)
    config = made.config.to_dict() | ({"num_hidden_layers": 3} if change == "rename" else {"vocab_size": 65})
    if change == "rename":
        config["layer_types"] = ["full_attention"] * 3
    Qwen3ForCausalLM.config_class(**config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=said):
        load_scattered(tmp_path, "fp32")
