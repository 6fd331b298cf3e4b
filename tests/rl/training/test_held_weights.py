"""What every process of a run holds, counted in real processes: each set of weights once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mappa_rl.config import Model, load_config
from mappa_rl.models.shape import adapter_parameters, shape_of
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from several_processes import reports

SIZES = ["model.hidden=32", "model.layers=1", "model.mlp=64", "model.vocab_size=261", "run.torch_threads=1"]
STAGE_3 = ["engine.name=vllm", "optim.zero_stage=3"]

# Layout -> models that the leading process and its follower hold. Adapters are counted apart.
LAYOUTS: list[tuple[list[str], float, float]] = [
    (["policies.map=separate", "algo.kl_coef=0"], 3, 3),
    (["policies.map=separate", "algo.kl_coef=0.01", "algo.kl=reward"], 4, 4),
    (["policies.map=separate", "algo.kl_coef=0.01", "algo.kl=loss_k2"], 4, 4),
    (["policies.map=separate", "algo.kl_coef=0", "policies.frozen=[coder_0]"], 3, 2),
    (["policies.map=shared", "algo.kl_coef=0"], 1, 1),
    (["policies.map=shared", "algo.kl_coef=0.01"], 2, 2),
    (["policies.map=separate", "algo.kl_coef=0", *STAGE_3], 1.5, 1.5),
    (["policies.map=separate", "algo.kl_coef=0", "policies.frozen=[coder_0]", *STAGE_3], 2, 1),
]
LORA = ["policies.map=lora", "algo.kl_coef=0.01"]


@pytest.mark.slow
def test_every_process_holds_each_set_of_weights_once(tmp_path: Path) -> None:
    config = load_config("demo", SIZES)
    tokenizer = train_tokenizer(["1 + 1 = 2"], Model(vocab_size=261))
    tiny_qwen3(tokenizer, config.model, seed=0).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    asked = [[*SIZES, *overrides] for overrides in (*(layout for layout, *_ in LAYOUTS), LORA)]
    rows = reports("held_weights.py", 2, str(tmp_path), json.dumps(asked))
    leader, follower = (row["counts"] for row in rows)
    shape = shape_of(config.model)
    for (overrides, leads, follows), leading, following in zip(LAYOUTS, leader, follower, strict=False):
        assert leading == pytest.approx(leads * shape.parameters, rel=0.001), overrides
        assert following == pytest.approx(follows * shape.parameters, rel=0.001), overrides
    adapters = 3 * adapter_parameters(shape, config.lora)
    assert leader[-1] == follower[-1] == shape.parameters + adapters
