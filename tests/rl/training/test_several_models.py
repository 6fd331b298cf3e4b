"""Policies from two models in one team: each has its own tokenizer, chat template and reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from mappa_rl.cli import main
from mappa_rl.commands.export import export
from mappa_rl.commands.play import play
from mappa_rl.config import Config, load_config
from mappa_rl.learner.samples import merge_turns
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.rollout.records import read_step, recorded_steps
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.preflight import find_problems
from mappa_rl.training.trainer import train
from tiny_run import TINY
from two_models import write_other_model


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_other_model(tmp_path_factory.mktemp("other"))


def config(other: Path, *overrides: str) -> Config:
    return load_config(
        "demo",
        [
            *TINY,
            f"policies.models={{coder_0: {other}}}",
            "rollout.max_new_tokens=8",
            "rollout.max_context=512",
            "run.steps=2",
            "run.checkpoint_every=1",
            "run.record_rollouts=true",
            *overrides,
        ],
    )


@pytest.fixture(scope="module")
def run(other: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    train(config(other), out)
    return out


@pytest.mark.slow
def test_each_policy_reads_and_writes_its_own_tokens(run: Path, other: Path) -> None:
    chats = {
        name: ChatTokenizer(AutoTokenizer.from_pretrained(folder))
        for name, folder in (("coder_0", other), ("solver_0", run / "warmstart"))
    }
    recorded = [rollout for path in recorded_steps(run) for rollout in read_step(path).rollouts]
    for rollout in recorded:
        merge_turns(rollout.turns)
        for turn in rollout.turns:
            own = chats["coder_0" if turn.agent == "coder_0" else "solver_0"]
            text = own.tokenizer.decode(turn.context_ids)
            assert ("[assistant] " in text) == (turn.agent == "coder_0")
            assert ("<|assistant|>" in text) == (turn.agent != "coder_0")
            if turn.stopped == "eos":
                assert turn.action_ids[-1] in own.stop_ids
    assert chats["coder_0"].stop_ids != chats["solver_0"].stop_ids


@pytest.mark.slow
def test_the_first_update_of_each_policy_starts_at_its_own_reference(run: Path) -> None:
    """At the start a policy is its reference: a penalty of 0, for both models."""
    first, second = read_metrics(run)
    for policy in ("solver_0", "coder_0", "verifier_0"):
        assert first[f"reference_kl/{policy}"] == pytest.approx(0, abs=1e-5)
        assert abs(second[f"reference_kl/{policy}"]) > 0 or first[f"grad_norm/{policy}"] == 0
        assert first[f"mismatch_max/{policy}"] < 1e-3


@pytest.mark.slow
def test_checkpoints_exports_and_play_keep_both_models_apart(run: Path, other: Path, tmp_path: Path) -> None:
    written = {path.name: path for path in export(run, tmp_path / "export")}
    for name, start in (("coder_0", other), ("solver_0", run / "warmstart")):
        found, began = (AutoTokenizer.from_pretrained(folder) for folder in (written[name], start))
        assert found.get_vocab() == began.get_vocab()
        assert found.chat_template == began.chat_template
        model = AutoModelForCausalLM.from_pretrained(written[name])
        assert model.config.vocab_size == len(began)
    weights = [load_file(folder / "model.safetensors") for folder in (written["coder_0"], other)]
    assert {k: v.shape for k, v in weights[0].items()} == {k: v.shape for k, v in weights[1].items()}
    played = play(run, "What is 2 + 2?", 0)
    assert [action.agent for action in played.actions][:2] == ["solver_0", "coder_0"]
    assert main(["eval", str(run), "eval.episodes=2"]) == 0


@pytest.mark.large
def test_adapters_have_bases_of_their_own_in_two_processes_and_resume(other: Path, tmp_path: Path) -> None:
    """With options of the loss whose sums go over processes."""
    asked = [
        *TINY,
        "policies.map=lora",
        f"policies.models={{coder_0: {other}}}",
        "optim.zero_stage=2",
        "algo.aggregation=constant",
        "algo.entropy_coef=0.01",
        "rollout.max_new_tokens=8",
        "run.checkpoint_every=1",
    ]
    train(load_config("demo", [*asked, "run.steps=2"]), tmp_path / "one")
    asked.append(f"warmstart.path={tmp_path / 'one' / 'warmstart'}")
    two = tmp_path / "two"
    assert main(["train", "demo", *asked, "run.steps=1", "run.processes=2", f"out={two}"]) == 0
    assert main(["train", "--resume", str(two), "run.steps=2"]) == 0
    for alone, shared in zip(read_metrics(tmp_path / "one"), read_metrics(two), strict=True):
        for policy in ("solver_0", "coder_0", "verifier_0"):
            for name in ("loss", "grad_norm", "reference_kl", "entropy"):
                key = f"{name}/{policy}"
                assert shared[key] == pytest.approx(alone[key], rel=1e-3, abs=1e-5), key
    bases = {}
    for path in export(two, tmp_path / "adapters", adapter=True):
        settings_of = json.loads((path / "adapter_config.json").read_text())
        bases[path.name] = Path(settings_of["base_model_name_or_path"])
    assert bases["coder_0"] == other.resolve()
    assert bases["solver_0"] == bases["verifier_0"] == (tmp_path / "one" / "warmstart").resolve()


def test_names_and_models_are_checked_before_a_run(other: Path, tmp_path: Path) -> None:
    def said(*models: str) -> str:
        asked = ["env.sandbox=calculator", f"policies.models={{{', '.join(models)}}}"]
        return "\n".join(map(str, find_problems(load_config("demo", asked), tmp_path / "run")))

    assert said(f"coder_0: {other}") == ""
    assert "'coder' is not a policy" in said(f"coder: {other}")
    assert "not a model folder: config.json is missing" in said(f"coder_0: {tmp_path}")
    every = [f"{agent}: {other}" for agent in ("solver_0", "coder_0", "verifier_0")]
    assert "none starts as model.kind" in said(*every)
