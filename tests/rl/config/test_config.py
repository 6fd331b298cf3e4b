"""Recipes, overrides and the errors they are refused with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mappa_rl.config import Config, load_config, recipe_names
from mappa_rl.config.overrides import keys, read_yaml, write_yaml
from mappa_rl.errors import ConfigError

KEYS = {name: (default, meaning) for name, default, meaning in keys(Config)}


def test_every_key_is_explained_and_there_are_few() -> None:
    unexplained = [name for name, (_, meaning) in KEYS.items() if len(meaning) < 5]
    assert unexplained == []
    assert len(KEYS) <= 152


def test_recipes_load_and_their_dump_reads_back_to_the_same_config(tmp_path: Path) -> None:
    assert {"demo", "demo_dsbench"} <= set(recipe_names())
    for name in recipe_names():
        config = load_config(name)
        path = tmp_path / f"{name}.yaml"
        path.write_text(config.dump())
        assert load_config(path) == config


def test_demo_trains_mathchat_with_process_rewards_on_separate_policies() -> None:
    config = load_config("demo")
    assert (config.env.id, config.env.shaping, config.policies.map) == (
        "mappa/MathChat-v0",
        "process",
        "separate",
    )
    assert config.eval.episodes >= 400
    assert config.env.options("eval")["tasks"] == "eval"
    assert "id" not in config.env.options("train")


def test_overrides_are_yaml_without_its_old_traps() -> None:
    config = load_config(
        "demo",
        [
            "algo.kl_coef=1e-2",
            "env.coach=off",
            "eval.temperatures=[1, 0.5]",
            "out=/tmp/somewhere",
            "env.task_options.levels=[1, 2]",
            "env.task_options.families=[linear]",
            "run.tensorboard=false",
            "policies.map={solver_0: a, coder_0: a, verifier_0: b}",
            "env.coach_feedback=off",
        ],
    )
    assert config.algo.kl_coef == 0.01
    assert config.env.coach == "off"
    assert config.env.coach_feedback == "off"
    assert config.eval.temperatures == [1.0, 0.5]
    assert config.run.out == "/tmp/somewhere"
    assert config.env.task_options == {"levels": [1, 2], "families": ["linear"]}
    assert config.run.tensorboard is False
    assert config.policies.map == {"solver_0": "a", "coder_0": "a", "verifier_0": "b"}


def test_a_falling_learning_rate_needs_steps_after_its_rise() -> None:
    with pytest.raises(ConfigError, match="below the 80 optimizer steps of the run"):
        load_config("demo", ["optim.schedule=linear", "optim.warmup_steps=80", "run.steps=40"])
    assert load_config("demo", ["optim.schedule=linear", "optim.warmup_steps=79", "run.steps=40"])
    assert load_config("demo", ["optim.warmup_steps=80", "run.steps=40"])


def test_later_overrides_win_and_the_recipe_is_left_alone() -> None:
    assert load_config("demo", ["run.seed=1", "run.seed=2"]).run.seed == 2
    config = load_config("demo")
    assert config.with_overrides(["run.seed=5"]).run.seed == 5
    assert config.run.seed == 0


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("algo.klcoef=1", "unknown key 'algo.klcoef'. Did you mean 'algo.kl_coef'?"),
        ("kl_coef=1", "Did you mean 'algo.kl_coef'?"),
        ("optim.learning_rate=1", "unknown key 'optim.learning_rate'"),
        ("algorithm.gamma=1", "Did you mean 'algo.gamma'?"),
        ("env.id.x=1", "Did you mean 'env.id'?"),
        ("algo=1", "'algo' is a section, not a key; its keys are algo.name"),
        ("wibble=1", "The sections are env, policies"),
        ("algo.mode=foo", "algo.mode='foo' is not allowed: it must be 'per_action' or 'return_to_go'"),
        ("optim.dtype=bf16", "optim.dtype=bf16 needs optim.zero_stage of 1 or 2"),
        ("optim.offload=true", "optim.offload=true needs optim.zero_stage of 1 or 2"),
        ("optim.zero_stage=3", "scatters weights that the hf engine reads whole"),
        ("optim.lr=fast", "optim.lr='fast' is not allowed: it must be a valid number"),
        ("optim.lr=0", "optim.lr=0 is not allowed: it must be greater than 0"),
        ("optim.lr=.nan", "optim.lr=nan is not allowed: it must be a finite number"),
        ("run.seed=1.5", "run.seed=1.5 is not allowed"),
        ("run.steps=", "run.steps=None is not allowed"),
        ("eval.temperatures=[1, -1]", "eval.temperatures[1]=-1 is not allowed"),
        ("eval.temperatures=[]", "at least 1 item"),
        ("optim.betas=[0.9]", "optim.betas[1] is missing"),
        (
            "policies.map=both",
            "policies.map='both' is not allowed: it must be 'separate', 'shared' or 'lora'",
        ),
        ("model.kv_heads=3", "model.kv_heads=3 must divide model.heads=4"),
        ("rollout.max_context=4096", "rollout.max_context=4096 exceeds model.max_len=512"),
        ("rollout.max_new_tokens=512", "leaves no room for a prompt"),
        ("rollout.lockstep_groups=999", "needs at least as many rollout.episodes_per_step"),
        ("warmstart.steps=50", "warmstart.warmup_steps=50 must be below warmstart.steps=50"),
        ("algo.gamma", "must look like section.key=value"),
        ("env.task_options={", "is not valid YAML"),
    ],
)
def test_a_bad_override_is_refused_by_name_value_and_remedy(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_config("demo", [override])


def test_a_bad_file_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("algo:\n  gama: 1\n  clip_low: -1\noptimizer:\n  lr: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    for said in (
        "'algo.gama'. Did you mean 'algo.gamma'?",
        "algo.clip_low=-1",
        "unknown key 'optimizer'",
        str(path),
    ):
        assert said in str(caught.value)
    path.write_text("- a\n- b\n")
    with pytest.raises(ConfigError, match="must hold sections"):
        load_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not a readable YAML file"):
        load_config(path)
    with pytest.raises(ConfigError, match=r"neither a recipe nor a file. Did you mean 'demo'\?"):
        load_config("dmeo")


@pytest.mark.parametrize("name", sorted(KEYS))
def test_any_misspelt_key_is_answered_with_its_right_name(name: str) -> None:
    section, leaf = name.split(".")
    with pytest.raises(ConfigError, match=re.escape(f"Did you mean {name!r}?")):
        load_config("demo", [f"{section}.{leaf}s=1"])


def test_an_empty_file_is_the_default_config(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("")
    assert load_config(path) == Config()


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
words = st.sampled_from(
    ["off", "on", "yes", "1e-4", "1e5", "08", "1_0", "2026-01-01", "1:30", "null", ".inf", "~", "0x1"]
)


@given(
    st.recursive(
        scalars | words, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
    )
)
@example("\x85")
@example({"\u2028": ["a\x85b", "\u2029"]})
def test_yaml_written_is_yaml_read(data: object) -> None:
    assert read_yaml(write_yaml(data), "here") == data


@pytest.mark.parametrize("shaping", ["outcome", "mixed", "{name: mixed, process_weight: 0.7}"])
def test_returns_refuse_rewards_that_give_every_action_the_outcome(shaping: str) -> None:
    with pytest.raises(ConfigError, match="return_to_go cannot be combined with"):
        load_config("demo", ["algo.mode=return_to_go", f"env.shaping={shaping}"])
    assert load_config("demo", ["algo.mode=return_to_go"]).algo.mode == "return_to_go"


@pytest.mark.parametrize("installed", [True, False])
def test_the_engine_auto_is_the_one_that_is_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr("mappa_rl.config.engine.fast_bf16", lambda: True)
    engine = load_config("smollm2").engine
    assert (engine.name, engine.dtype) == (("vllm", "bf16") if installed else ("hf", "learner"))


def test_the_engine_hf_drops_what_a_recipe_says_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Error messages say ``use engine.name=hf``."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())  # vllm is installed
    for asked in ("engine.name=hf", "engine.name = 'hf'"):
        assert load_config("smollm2", [asked]).engine == load_config("demo").engine
    with pytest.raises(ConfigError, match=r"engine\.max_num_seqs does nothing"):
        load_config("smollm2", ["engine.name=hf", "engine.max_num_seqs=8"])


@pytest.mark.parametrize("text", ["optim: {lr: 0.001}\noptim: {epochs: 2}", "optim: {lr: 0.001, lr: 0.002}"])
def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "twice.yaml").write_text(text)
    with pytest.raises(ConfigError, match="is there twice"):
        load_config(tmp_path / "twice.yaml")


@pytest.mark.parametrize("override", ["optim.betas=[0.9,1.0]", "run.seed=100000000000000000000"])
def test_what_torch_would_refuse_later_is_refused_at_once(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        load_config("demo", [override])
