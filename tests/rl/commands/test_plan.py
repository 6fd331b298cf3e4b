"""``mappa-rl plan``: a command line to copy, a reason, and every assumption with its source."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mappa_rl.cli import main
from mappa_rl.config import load_config


def test_it_prints_a_command_that_the_config_accepts_and_says_that_it_predicts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "mathchat", "--gpus", "16", "--nodes", "2", "--gpu-price", "2", "run.steps=10"]) == 0
    shown = capsys.readouterr().out
    words = shlex.split(next(line for line in shown.splitlines() if line.startswith("mappa-rl train")))
    assert words[-1] == "--dry-run"
    config = load_config(words[2], words[3:-1])
    assert (config.cluster.name, config.cluster.address, config.run.steps) == ("ray", "auto", 10)
    if config.engine.tensor_parallel > 1:
        assert config.cluster.learner_node
        assert config.cluster.engine_node
        assert """start this node with `ray start --resources '{"learners": 8}'`""" in shown
    for said in (
        "PREDICTED from the assumptions below; nothing of this was measured on a GPU.",
        "first bottleneck: ",
        "runners-up",
        "episodes an hour: ",
        "NVIDIA's data sheet",
        "for 10 steps",
    ):
        assert said in shown, said


def test_costs_appear_only_for_a_given_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "mathchat_lora", "--gpus", "1"]) == 0
    assert "$" not in capsys.readouterr().out
    assert main(["plan", "mathchat_lora", "--gpus", "1", "--json", "--verdict-price", "0.5"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["dollars_per_step"] == {"coach": 64 * 4 * 0.5}


def test_json_holds_the_plan_its_assumptions_and_the_runners_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "mathchat", "--gpus", "8", "--json", "--assume", "sandbox_s=9"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["predicted"] is True
    assert sum(facts["parts_s"].values()) == pytest.approx(facts["step_s"])
    assert load_config("mathchat", facts["overrides"])
    figures = {each["key"]: each for each in facts["figures"]}
    assert (figures["sandbox_s"]["value"], figures["sandbox_s"]["source"]) == (9, "given with --assume")
    assert all(each["source"] for each in facts["figures"])
    assert facts["others"]
    assert facts["others"][0]["step_s"] >= facts["step_s"]


def test_a_run_replaces_assumptions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(load_config("demo").dump())
    row = {"step": 1, "episodes": 8, "tokens": 320, "actions/a": 24, "tokens/a": 960, "action_tokens/a": 320}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["plan", "demo", "--gpus", "1", "--json", "--measured", str(tmp_path)]) == 0
    figures = {each["key"]: each for each in json.loads(capsys.readouterr().out)["figures"]}
    assert figures["actions"]["value"] == 3
    assert figures["actions"]["source"] == f"measured in 1 steps of {tmp_path}"
    assert main(["plan", "demo", "--gpus", "1", "--measured", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--gpus", "0"], "--gpus 0 must be at least 1"),
        (["demo", "--gpus", "6", "--nodes", "4"], "use a multiple of 4"),
        (["mathchatt", "--gpus", "8"], "is neither a recipe nor a file. Did you mean 'mathchat'"),
        (
            ["mathchat", "--gpus", "1", "--gpu-memory-gb", "8"],
            "no placement of this recipe fits on 1 GPUs of 8.0 GB",
        ),
        (["demo", "--gpus", "1", "--staleness", "1"], "needs importance sampling"),
        (["demo", "--gpus", "1", "--assume", "x=1"], "there is no such figure"),
        (["demo", "--gpus", "1", "--assume", "sandbox_s=fast"], "must be FIGURE=NUMBER"),
        (["demo", "--gpus", "1", "--assume", "sandbox_s=1", "--assume", "sandbox_s=2"], "is set twice"),
        (["demo", "--gpus", "1", "--gpu-price", "-1"], "--gpu-price -1 must be at least 0"),
        (["demo", "--gpus", "1", "--sandboxes", "0"], "--sandboxes 0 must be at least 1"),
        (["demo", "--gpus", "1", "--coach-rpm", "0"], "--coach-rpm 0 must be at least 1e-06"),
        (["demo", "--gpus", "1000000000"], "--gpus 1000000000 must be at most 100,000"),
        (["mathchat", "--gpus", "8", "--staleness", "101"], "--staleness 101 must be at most 100"),
        (
            ["mathchat", "--gpus", "8", "--gpu-memory-gb", "inf"],
            "--gpu-memory-gb inf must be a finite number",
        ),
        (
            ["mathchat", "--gpus", "8", "--gpu-memory-gb", "nan"],
            "--gpu-memory-gb nan must be a finite number",
        ),
        (["mathchat", "--gpus", "8", "--gpu-price", "nan"], "--gpu-price nan must be a finite number"),
        (["mathchat", "--gpus", "8", "--coach-rpm", "inf"], "--coach-rpm inf must be a finite number"),
        (["mathchat", "--gpus", "8", "--assume", "sandbox_s=inf"], "sandbox_s=inf must be a finite number"),
        (["mathchat", "--gpus", "8", "--assume", "gpu_flops=1e-300"], "gpu_flops=1e-300 must be at least"),
        (["demo", "--gpus", "1", "--verdict-price", "0.01"], "the coach of demo asks no model"),
    ],
)
def test_wrong_input_is_named_with_its_remedy(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command_can_be_copied_whatever_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, coach = tmp_path / "my demo.yaml", "env.coach={'name': 'rubric'}"
    recipe.write_text(load_config("demo").dump())
    assert main(["plan", str(recipe), "--gpus", "1", "--json", coach]) == 0
    words = shlex.split(json.loads(capsys.readouterr().out)["command"])
    assert words[:4] == ["mappa-rl", "train", str(recipe), coach]


def test_thousands_of_gpus_and_much_staleness_only_add_numbers_to_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tried(*words: str) -> int:
        assert main(["plan", "mathchat", "--json", *words]) == 0
        found = json.loads(capsys.readouterr().out)["tried"]
        assert isinstance(found, int)
        return found

    few = tried("--gpus", "64", "--nodes", "8")
    assert tried("--gpus", "4096", "--nodes", "512") < 20 * few
    assert tried("--gpus", "64", "--nodes", "8", "--staleness", "50") < 25 * few
