"""Runs on a model folder, as any chat model on Hugging Face is: trained, evaluated, exported, loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from mappa_env.trace.record import read
from mappa_rl.cli import main
from mappa_rl.commands.export import export
from mappa_rl.config import load_config
from mappa_rl.errors import CheckpointError, RunError
from mappa_rl.evaluation.results import load_results
from mappa_rl.evaluation.summary import read_summary
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from mappa_rl.warmstart.warmstart import start_folder
from model_folders import model_folder

AGENTS = ("solver_0", "coder_0", "verifier_0")
TEXT = "plan: gcd(84, 70)"


def run(folder: Path, family: str, *overrides: str) -> Path:
    """Two training steps on such a model, from its own weights."""
    config = load_config(
        "demo",
        [
            f"model.kind={model_folder(folder / 'base', family)}",
            "warmstart.steps=0",
            "run.steps=2",
            "rollout.episodes_per_step=4",
            "rollout.max_new_tokens=8",
            "rollout.max_context=400",
            "env.sandbox=calculator",
            "eval.episodes=4",
            "eval.calibration_temperatures=[]",
            "run.checkpoint_every=1",
            "run.tensorboard=false",
            *overrides,
        ],
    )
    return train(config, folder / "run")


def logits(folder: Path, adapter: Path | None = None) -> torch.Tensor:
    """What the model in ``folder`` says of a text as its own tokenizer reads it."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        found: torch.Tensor = model(tokenizer(TEXT, return_tensors="pt").input_ids).logits
    return found


@pytest.mark.slow
def test_separate_policies_with_samples_validation_and_sampling_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(
        tmp_path,
        "llama-3",
        "eval.group_size=2",
        "eval.validation_tasks=4",
        "eval.top_p=0.9",
        "eval.max_new_tokens=6",
        "rollout.agents={solver_0: {temperature: 0.7, max_new_tokens: 5}}",
        "run.keep_checkpoints=1",
    )
    rows = read_metrics(out)
    assert all(row[f"mismatch/{agent}"] < 1e-4 for row in rows for agent in AGENTS)
    assert all(0 <= row["validation"] <= 1 for row in rows)
    assert max(row["length/solver_0"] for row in rows) <= 5 < max(row["length/coder_0"] for row in rows)
    results = load_results(out)["after", 1.0]
    assert [row.task_id for row in results][::2] == [row.task_id for row in results][1::2]
    summary = read_summary(out)
    assert summary is not None
    assert {"pass@1", "pass@2"} <= set(summary.arms["mappa/MathChat-v0 T=1.0"].measures)

    exported = export(out, tmp_path / "plain", "best")
    assert [path.name for path in exported] == sorted(AGENTS)
    for path in exported:
        source = out / "checkpoints" / "step-000002" / "policies" / path.name / "model"
        assert torch.equal(logits(path), logits(source))
        assert not [p for p in path.iterdir() if p.suffix not in (".safetensors", ".json", ".jinja", ".txt")]
    assert not torch.equal(logits(exported[0]), logits(exported[1]))
    with pytest.raises(RunError, match="not an empty folder"):
        export(out, tmp_path / "plain")
    with pytest.raises(RunError, match=r"policies\.map=separate, so it trained no adapters"):
        export(out, tmp_path / "adapters", adapter=True)
    with pytest.raises(CheckpointError, match="no checkpoint '7'; steps with a checkpoint: 2"):
        export(out, tmp_path / "seventh", "7")
    capsys.readouterr()
    assert main(["export", str(out), "--checkpoint", "2"]) == 0
    assert capsys.readouterr().out.split() == [str(out / "export-2" / name) for name in sorted(AGENTS)]

    assert main(["eval", str(out), "--checkpoint", "best", "eval.group_size=4", "env.coach=off"]) == 0
    shown = capsys.readouterr().out
    assert "pass@4" in shown
    assert "pass@k: one of k episodes" in shown
    assert main(["eval", str(out), "--checkpoint", "1"]) == 1
    assert "no checkpoint '1'" in capsys.readouterr().err


@pytest.mark.slow
def test_one_thinking_policy_for_all(tmp_path: Path) -> None:
    out = run(tmp_path, "r1-distill", "policies.map=shared")
    assert all(row["mismatch/shared"] < 1e-4 for row in read_metrics(out))
    said = [action for played in read(out / "traces" / "after.jsonl") for action in played.actions]
    assert all(action.action.startswith("<think>\n") for action in said)
    assert all(action.answer == "" for action in said if "</think>" not in action.action)
    (path,) = export(out, tmp_path / "plain")
    assert path.name == "shared"
    tokenizer = AutoTokenizer.from_pretrained(path)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "?"}], tokenize=False, add_generation_prompt=True
    )
    assert asked.endswith("<think>\n")


@pytest.mark.slow
def test_adapters_are_exported_merged_and_alone(tmp_path: Path) -> None:
    out = run(tmp_path, "qwen3", "policies.map=lora", "lora.rank=2", "optim.lr=0.01")
    whole, adapters = export(out, tmp_path / "plain"), export(out, tmp_path / "adapters", adapter=True)
    base = start_folder(load_config(out / "config.yaml"), out)
    start = logits(base)
    for plain, adapter in zip(whole, adapters, strict=True):
        assert sorted(p.name for p in adapter.iterdir() if p.suffix != ".md") == [
            "adapter_config.json",
            "adapter_model.safetensors",
        ]
        settings = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        assert settings["base_model_name_or_path"] == str(base.resolve())
        torch.testing.assert_close(logits(base, adapter), logits(plain), atol=1e-5, rtol=1e-5)
        assert not torch.allclose(logits(plain), start, atol=1e-4)
