"""Recipes of published runs: they load, they say what is missing, and with a tiny model they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mappa_env.cli import main as add_data
from mappa_env.trace import Traces
from mappa_rl.cli import main
from mappa_rl.config import RECIPES, Model, load_config, recipe_names
from mappa_rl.config.overrides import read_yaml
from mappa_rl.errors import ConfigError
from mappa_rl.models.pretrained import model_folder
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.report.combine import combine
from mappa_rl.report.runs import read_run
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train

PUBLISHED = ("mathchat", "mathchat_lora", "mathchat_outcome", "dsbench", "dsbench_lora")
SHRUNK = [
    "rollout.episodes_per_step=4",
    "rollout.max_new_tokens=8",
    "rollout.max_context=12000",
    "model.max_len=12000",
    "optim.tokens_per_micro_batch=24000",
    "optim.minibatches=1",
    "eval.episodes=2",
    "eval.every=1",
    "run.steps=2",
    "run.checkpoint_every=1",
    "run.torch_threads=1",
    "run.tensorboard=false",
    "env.sandbox=calculator",
    "engine.name=hf",
    "engine.devices=[]",
    "engine.tensor_parallel=1",
    "engine.replicas=1",
    "engine.memory_fraction=0.4",
    "engine.sleep=false",
    "optim.zero_stage=2",
    "run.processes=1",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model in a plain Hugging Face folder, as a downloaded one would lie."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(["plan: 3 * 4 + 5\nresult: 17"] * 3, Model(vocab_size=320, max_len=12000))
    tiny_qwen3(tokenizer, Model(hidden=32, layers=1, mlp=64, max_len=12000), seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("problems") / "own.json"
    rows = [{"prompt": f"What is {n} + {n}?", "answer": 2 * n} for n in range(12)]
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_hyperparameters(name: str) -> None:
    config = load_config(name)
    math, lora = name.startswith("mathchat"), name.endswith("lora")
    optim, rollout, algo = config.optim, config.rollout, config.algo
    assert optim.lr == (1e-5 if lora else 1e-6)
    assert (optim.schedule, optim.min_lr_ratio, optim.warmup_ratio) == ("cosine", 0.1, 0.03)
    assert (optim.betas, optim.weight_decay, optim.grad_clip, optim.epochs) == ((0.9, 0.95), 0, 1, 1)
    assert (optim.dtype, optim.gradient_checkpointing, optim.offload) == ("bf16", True, not lora)
    assert (config.engine.name, config.engine.sleep, optim.zero_stage) == ("vllm", lora, 2 if lora else 3)
    assert (algo.name, algo.mode, algo.kl_coef, algo.kl) == ("reinforce_pp", "per_action", 0.01, "reward")
    assert (algo.clip_low, algo.mask_truncated) == (0.2, True)
    assert rollout.episodes_per_step // rollout.group_size == (32 if math else 16)
    assert rollout.max_new_tokens == (4096 if math else 16384)
    assert rollout.max_context - rollout.max_new_tokens == 24576
    assert (rollout.temperature, config.eval.temperatures) == (1.0, [0.6])
    assert rollout.stratify == ("off" if math else "proportional")
    if math:
        assert (rollout.tasks, rollout.tasks_seed, rollout.draw) == (512, 42, "passes")
        assert config.run.steps * rollout.episodes_per_step // rollout.group_size == 8 * 512
        assert (config.env.id, config.eval.episodes) == ("mappa/AIME-v0", 4 * 30)
        assert config.eval.also == {"mappa/AMC-v0": 4 * 32}
    updates = config.run.steps * optim.minibatches
    assert updates == (512 if math else 240)
    assert optim.warmup(updates) == (16 if math else 8)
    assert config.policies.map == ("lora" if lora else "separate")
    assert config.env.shaping == ("outcome" if name.endswith("outcome") else "process")


def test_smollm2_lora_is_smollm2_with_adapters_at_a_higher_rate() -> None:
    full, lora = (_settings(name) for name in ("smollm2", "smollm2_lora"))
    differing = {key for key in {*full, *lora} if full.get(key) != lora.get(key)}
    assert differing == {"policies.map", "optim.lr", "lora.rank", "lora.alpha", "lora.targets"}
    assert lora["optim.lr"] == pytest.approx(60 * full["optim.lr"])


def _settings(name: str) -> dict[str, Any]:
    """What a recipe says, by dotted key."""
    written = read_yaml((RECIPES / f"{name}.yaml").read_text(), name)
    return {f"{section}.{key}": value for section, keys in written.items() for key, value in keys.items()}


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_in_bf16_on_vllm_correct_the_mismatch_of_sampler_and_learner(name: str) -> None:
    written = read_yaml((RECIPES / f"{name}.yaml").read_text(), name)  # not resolved: auto may mean vLLM
    engine, optim, algo = (written.get(section, {}) for section in ("engine", "optim", "algo"))
    bf16 = {"bf16", "auto"} & {engine.get("dtype"), optim.get("dtype")}
    if engine.get("name", "hf") != "hf" and bf16:
        assert algo.get("importance_sampling") in ("tis", "icepop")
    else:
        assert name.startswith("demo"), "a recipe without vLLM or bf16 that this test does not know"


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shrunk_recipe_runs_from_a_model_folder(
    name: str, model: Path, problems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    math = name.startswith("mathchat")
    tasks = str(problems) if math else "train"
    overrides = [*SHRUNK, f"model.kind={model}", f"env.tasks_train={tasks}", f"env.tasks_eval={tasks}"]
    if math:
        monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "data"))
        assert add_data(["data", "add", "amc", "--split", "eval", str(problems)]) == 0
        overrides += ["rollout.tasks=5", "eval.also={mappa/AMC-v0: 3}"]
    if name != "mathchat_outcome":
        overrides.append("env.coach=rubric")  # the recipe's asks a language model
    config = load_config(name, overrides)
    train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["masked"] < 1 for row in rows)
    assert not (tmp_path / "run" / "warmstart").exists()
    policies = tmp_path / "run" / "checkpoints" / "step-000002" / "policies"
    assert len([path for path in policies.iterdir() if (path / "model" / "config.json").is_file()]) == 3
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["faults"] == []
    where = {arm.split()[0]: values["before"]["n"] for arm, values in summary["arms"].items()}
    assert where == {config.env.id: 2, **config.eval.also}
    if math:
        played = {each.trajectory.task.id for each in Traces(tmp_path / "run" / "traces" / "train")}
        assert len(played) == 4, "two steps of two tasks, none of them twice"
        assert set(combine([read_run(tmp_path / "run")]).arms) == set(summary["arms"])


@pytest.mark.parametrize("name", recipe_names())
def test_dry_run_prints_for_every_recipe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-models"))
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    status = main(["train", name, "--dry-run", "--no-rehearsal", f"out={tmp_path / 'run'}"])
    shown = capsys.readouterr().out
    missing = shown.split("\nproblems")[1]
    if name in PUBLISHED:
        assert status == 2
        assert "hf download Qwen/Qwen3-4B-Thinking-2507" in missing
        if name != "mathchat_outcome":
            assert "GEMINI_API_KEY" in missing
        assert "mappa-env data add " + ("aime" if "math" in name else "dsbench") in missing
    elif name.startswith("smollm2"):
        assert status == 2
        assert "`make llm` prepares it" in missing
    else:
        assert (status, missing.strip()) == (0, ": none")
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_here_is_said_to_be(model: Path, tmp_path: Path) -> None:
    assert model_folder(str(model)) == model
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"not a model folder: config.json is missing"):
        model_folder(str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="neither 'tiny', nor a folder"):
        model_folder(str(tmp_path / "no" / "such"))
    with pytest.raises(ConfigError, match="hf download nobody/nothing-of-this-name"):
        model_folder("nobody/nothing-of-this-name")
