"""The recipes of a real model, with tiny models of several architectures in its place (``--model``)."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from architectures import ARCHITECTURES, write_model
from killing import HERE, saved_steps
from mappa_rl.cli import main
from mappa_rl.telemetry.sinks import read_metrics

VLLM = importlib.util.find_spec("vllm") is not None
AGENTS = ("solver_0", "coder_0", "verifier_0")
SMALL = [
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=8",
    "rollout.temperature=0.7",  # random models: their replies end early often enough to differ in length
    "algo.overlong_buffer=4",
    f"env.coach={HERE / 'length_coach.py'}:LengthCoach",
    "env.sandbox=calculator",
    "eval.episodes=2",
    "eval.calibration_episodes=2",
    "run.checkpoint_every=1",
    "run.torch_threads=1",
    "run.tensorboard=false",
]
"""Everywhere: vLLM serves no adapters of some architectures."""
NOT_WARMED = ["warmstart.steps=0", "eval.calibration_temperatures=[]"]
WARMED = [
    "warmstart.episodes=4",
    "warmstart.steps=2",
    "warmstart.warmup_steps=1",
    "warmstart.batch_size=2",
    "warmstart.until=0.35",
    "warmstart.check_every=1",
    "warmstart.check_episodes=1",
]


def command(recipe: str, model: Path, out: Path, *overrides: str) -> list[str]:
    return ["train", recipe, "--model", str(model), *SMALL, *overrides, f"out={out}"]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_adapters_on_every_linear_layer_of_any_architecture_learn(architecture: str, tmp_path: Path) -> None:
    model, targets = write_model(tmp_path / "model", architecture), ARCHITECTURES[architecture][1]
    layers = f"lora.targets=[{', '.join(targets)}]"
    run = tmp_path / "run"
    exact = "optim.autocast=false"  # the hf engine computes in fp32
    assert (
        main(command("smollm2_lora", model, run, *NOT_WARMED, "engine.name=hf", layers, exact, "run.steps=2"))
        == 0
    )
    rows = read_metrics(run)
    assert len(rows) == 2
    assert all(row[f"grad_norm/{agent}"] > 0 for row in rows for agent in AGENTS)
    assert max(row[f"mismatch/{agent}"] for row in rows for agent in AGENTS) < 1e-4
    start = load_file(model / "model.safetensors")
    policies = run / "checkpoints" / "step-000002" / "policies"
    for agent in AGENTS:
        adapter = load_file(policies / agent / "adapter" / "adapter_model.safetensors")
        assert {name.split(".")[-3] for name in adapter} == set(targets)
        trained = load_file(policies / agent / "model" / "model.safetensors")
        changed = {name.split(".")[-2] for name in start if not trained[name].equal(start[name])}
        assert changed == set(targets)


def test_targets_that_a_model_lacks_are_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model", "gpt-neox")
    asked = [*command("smollm2_lora", model, tmp_path / "run"), "--dry-run", "--no-rehearsal"]
    assert main(asked) == 2
    shown = capsys.readouterr().out.split("problems (1):")[1]
    assert "adapters: lora.targets=['down_proj', " in shown
    assert "'dense', 'dense_4h_to_h', 'dense_h_to_4h', 'lm_head', 'query_key_value'" in shown
    layers = "lora.targets=[query_key_value, dense]"
    assert main([*asked, layers]) == 0
    assert "an adapter of rank 16 on a shared base of" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_a_model_without_a_chat_template_is_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model", "llama")
    (model / "chat_template.jinja").unlink()
    assert main([*command("smollm2_lora", model, tmp_path / "run"), "--dry-run", "--no-rehearsal"]) == 2
    assert f"model: model.kind='{model}': This tokenizer has no chat template" in capsys.readouterr().out


@pytest.mark.parametrize(("key", "most"), [("max_position_embeddings", 512), ("sliding_window", 300)])
def test_a_model_for_shorter_texts_is_refused_before_a_run(
    key: str, most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model", "gemma3")
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: most}))
    asked = [*command("smollm2_lora", model, tmp_path / "run"), "--dry-run", "--no-rehearsal"]
    assert main(asked) == 2
    assert f"rollout.max_context=640 exceeds the {most} tokens" in capsys.readouterr().out
    assert main([*asked, f"rollout.max_context={most}"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "processes"),
    [
        ("smollm2", 1),
        pytest.param("smollm2_lora", 1, marks=pytest.mark.large),
        pytest.param("smollm2_lora", 2, marks=[] if VLLM else pytest.mark.large),  # `make test-vllm` runs it
    ],
)
def test_a_recipe_warms_up_learns_stops_resumes_is_evaluated_and_plays(
    recipe: str, processes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, run = write_model(tmp_path / "model", "llama"), tmp_path / "run"
    more = [*WARMED, f"run.processes={processes}", "run.steps=200", "eval.every=1"]
    asked = [sys.executable, "-m", "mappa_rl.cli", *command(recipe, model, run, *more)]
    with (tmp_path / "shown").open("w") as shown:
        process = subprocess.Popen(asked, stdout=shown, stderr=subprocess.STDOUT)
    until = time.monotonic() + 400
    while len(read_metrics(run)) < 1 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, (tmp_path / "shown").read_text()
    logged, saved = saved_steps(run)
    assert saved >= logged >= 1
    assert main(["train", "--resume", str(run), f"run.steps={saved + 1}"]) == 0
    rows = read_metrics(run)
    assert [row["step"] for row in rows] == list(range(1, saved + 2))
    capsys.readouterr()
    assert main(["eval", str(run), "eval.episodes=4"]) == 0
    assert main(["play", str(run), "97 mod 11?"]) == 0
    assert "== Verifier" in capsys.readouterr().out
    assert (run / "report.html").is_file()
