"""``mappa-rl train --dry-run``: the work of a run, its cost, and what would stop it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mappa_rl.cli import main
from mappa_rl.commands.fleet import plan_seeds
from mappa_rl.commands.work import work
from mappa_rl.config import Model, load_config
from mappa_rl.models.shape import shape_of


def test_dry_run_writes_nothing_and_says_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--dry-run", "--no-rehearsal"]
    sizes = [
        "warmstart.episodes=16000",
        "rollout.episodes_per_step=128",
        "run.steps=40",
        "model.vocab_size=320",
    ]
    assert main(["train", "demo", "algo.kl_coef=0.02", *quick, "--seeds", "0,1,2", *sizes]) == 0
    shown = capsys.readouterr().out
    for said in (
        "changed: algo.kl_coef=0.02",
        "verifier_0",
        "336,640",
        "16,000",
        "5,120",
        "runs: 3 seeds (0, 1, 2) = 3 runs",
        "folder: runs/demo-",
        "memory (estimate): ",
        "disk (estimate): ",
        "coach: rubric judges per run: 15,360 to 20,480 actions in training",
    ):
        assert said in shown, said
    assert "rope_theta" not in shown
    assert shown.splitlines()[-1] == "problems: none"
    assert list(tmp_path.iterdir()) == []
    assert main(["train", "demo", *quick, "--verbose", *sizes]) == 0
    shown = capsys.readouterr().out
    for said in (
        "kl_coef: 0.01",
        "memory of the process (estimate; 1 process)",
        "activations of 8,192 tokens",
    ):
        assert said in shown, said


def test_dry_run_of_generate_writes_nothing_and_exits_as_the_refusal_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["generate", "demo", "run.steps=2", "rollout.episodes_per_step=8", "warmstart.episodes=50"]
    assert main([*command, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    for said in (r"demonstrations +50 ", r"generating +16 +2 ", "weights: those that a run of this recipe"):
        assert re.search(said, shown), said
    assert shown.splitlines()[-1] == "problems: none"
    assert main([*command, "policies.frozen=[nobody_0]", "--dry-run"]) == 2
    assert "problems (1):\n  policies: Cannot freeze 'nobody_0'" in capsys.readouterr().out
    assert main([*command, "policies.frozen=[nobody_0]"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_dry_run_counts_the_runs_of_a_comparison_and_checks_every_shaping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["shape", "demo", "--dry-run", "--no-rehearsal", "--seeds", "0,1,2", "--shapings"]
    assert main([*command, "all"]) == 0
    shown = capsys.readouterr().out
    assert "4 shapings (process, outcome, mixed, backward) x 3 seeds (0, 1, 2) = 12 runs" in shown
    assert main([*command, "process,proc"]) == 2
    assert "shaping='proc' is not a shaping" in capsys.readouterr().out.split("problems (1):")[1]
    assert main(["shape", "demo", "--shapings", "proc", f"out={tmp_path / 'no' / 'such'}"]) == 2
    assert "shaping='proc' is not a shaping" in capsys.readouterr().err


@pytest.mark.slow
def test_dry_run_of_a_resumed_folder_of_runs_starts_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_seeds(load_config("demo"), tmp_path, [0, 1])
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", "--resume", str(tmp_path), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "runs to resume: seed-0, seed-1" in shown
    assert shown.splitlines()[-1] == "problems: none"
    assert sorted(tmp_path.rglob("*")) == before


def test_dry_run_says_what_a_model_as_the_coach_costs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    coach = "env.coach={name: 'gemini:gemini-3.8-flash'}"
    assert main(["train", "demo", "--dry-run", coach, "env.sandbox=calculator", "run.steps=10"]) == 2
    shown = capsys.readouterr().out
    assert (
        "coach: gemini:gemini-3.8-flash judges per run: 3,840 to 5,120 actions in training, 2,400 to 3,200"
        in shown
    )
    assert re.search(r"coach's cost \(estimate\): low \$[0-9.]+, typical \$[0-9.]+, high \$", shown)
    # nobody has the key 'none', and tests may have no network
    assert re.search(r"problems \(1\):\n  coach: .*gemini:gemini-3\.8-flash", shown)
    unpriced = "env.coach={name: 'gemini:gemini-of-tomorrow'}"
    assert main(["train", "demo", "--dry-run", unpriced, "env.sandbox=calculator"]) == 2
    assert "the price of this model is unknown" in capsys.readouterr().out


def test_dry_run_lists_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["env.id=mappa/MathsChat-v0", "model.kind=/no/such/model", "warmstart.path=/no/such/start"]
    assert main(["train", "demo", "--dry-run", *wrong]) == 2
    shown = capsys.readouterr().out
    for said in ("MathsChat", "model.kind='/no/such/model'", "warmstart.path='/no/such/start'"):
        assert said in shown.split("problems (3):")[1]
    assert main(["train", "demo", *wrong]) == 2  # the status of the refusal


@pytest.mark.slow
def test_parameters_are_counted_exactly() -> None:
    from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer

    tokenizer = train_tokenizer(["plan: 3 * 4 + 5\nresult: 17"] * 3, Model(vocab_size=261))
    config = load_config("demo", ["model.vocab_size=261", "model.hidden=48", "model.layers=3"])
    model = tiny_qwen3(tokenizer, Model(hidden=48, layers=3), seed=0)
    assert shape_of(config.model).parameters == sum(p.numel() for p in model.parameters())


def test_work_counts_every_episode() -> None:
    config = load_config("demo", ["eval.every=10", "run.steps=40", "eval.temperatures=[1.0, 0.0]"])
    phases = {phase.phase: phase for phase in work(config, turns=4)}
    assert phases["training"].episodes == 40 * 128
    assert phases["training"].tokens == 40 * 128 * 4 * config.rollout.max_new_tokens
    assert phases["evaluation before"].episodes == 3 * config.eval.episodes
    assert phases["evaluation during training"].episodes == 3 * 2 * config.eval.episodes
