"""Checks before a run: everything that is wrong is found, all at once, and nothing is when all is well."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest

from fake_llm import failing, serving
from mappa_rl.cli import main
from mappa_rl.config import load_config
from mappa_rl.disk import free_disk
from mappa_rl.errors import ConfigError
from mappa_rl.training.preflight import Purpose, coach, find_problems, require, resources
from mappa_rl.training.preflight.memory import Memory
from mappa_rl.training.preflight.resources import free_memory

CALM = ["env.sandbox=calculator", "run.tensorboard=false"]


def problems(*overrides: str, probe: bool = True) -> list[str]:
    config = load_config("demo", [*CALM, *overrides])
    return [str(problem) for problem in find_problems(config, Path("runs"), probe=probe)]


def algorithm(folder: Path, body: str) -> str:
    """An algorithm of one's own whose ``advantages`` has this body."""
    path = folder / "mine.py"
    path.write_text(
        dedent(
            f"""
            from dataclasses import dataclass
            import numpy as np
            from mappa_rl.algos import ActionAlgorithm

            @dataclass(frozen=True, slots=True)
            class Mine(ActionAlgorithm):
                def advantages(self, actions):
                    {body}
            """
        )
    )
    return f"algo.name={path}:Mine"


def test_a_sound_run_has_no_problems() -> None:
    assert problems() == []


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    wrong = [
        "policies.lr={solvr_0: 0.001}",
        "policies.frozen=[nobody_0]",
        "rollout.agents={coder_1: {temperature: 0.5}}",
        "env.shaping=proc",
        "algo.name=reinforce",
        "model.kind=/no/such/model",
    ]
    found = problems(*wrong)
    for said in (
        "policies: policies.lr: 'solvr_0' is not a trained policy",
        "policies: Cannot freeze 'nobody_0'",
        "agents: rollout.agents names 'coder_1'",
        "environment (train): shaping='proc' is not a shaping",
        "algorithm: algo.name='reinforce' is not an algorithm",
        "model: model.kind='/no/such/model'",
    ):
        assert any(line.startswith(said) for line in found), (said, found)
    assert len(found) == len(wrong)
    with pytest.raises(ConfigError, match=r"6 problems keep this run from starting:\n  algorithm: algo.name"):
        require(load_config("demo", [*CALM, *wrong]), tmp_path)


@pytest.mark.parametrize(
    "overrides",
    [
        ["algo.name=grpo", "rollout.group_size=2"],
        ["algo.name=dr_grpo", "rollout.group_size=2"],
        ["algo.name=rloo", "rollout.group_size=2"],
        ["algo.name=gigpo", "rollout.group_size=2"],
        ["algo.name=reinforce_pp_baseline", "rollout.group_size=2"],
        ["algo.name=ema"],
        ["algo.name=ppo"],
    ],
)
def test_every_algorithm_passes_its_test_batch(overrides: list[str]) -> None:
    assert problems(*overrides) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return actions.rewards[:-1]", "Mine.advantages() must return one number per action, shape (7,)"),
        ("return actions.rewards * np.nan", "Mine.advantages() must return finite numbers"),
        (
            "return actions.reward",
            "Mine.token_advantages() failed on a test batch of 4 samples: AttributeError",
        ),
    ],
)
def test_an_algorithm_of_ones_own_is_tried_on_a_test_batch(tmp_path: Path, body: str, said: str) -> None:
    (found,) = problems(algorithm(tmp_path, body))
    assert said in found


@pytest.mark.parametrize(
    ("key", "concern"), [("algo.name", "algorithm"), ("algo.loss", "loss"), ("env.shaping", "environment")]
)
def test_a_constructor_that_fails_is_a_problem(tmp_path: Path, key: str, concern: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text("class Boom:\n    def __init__(self):\n        raise RuntimeError('no licence')\n")
    (found,) = problems(f"{key}={path}:Boom")
    assert found.startswith(concern)
    assert "Boom() raised RuntimeError: no licence" in found


def test_a_card_without_a_scripted_team_needs_a_pretrained_model(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("extends: mathchat\nid: Unscripted-v0\ntitle: Own\nscripted: ''\n")
    for steps in (0, 10):
        (found,) = problems(f"env.id={tmp_path}", f"warmstart.steps={steps}", "warmstart.warmup_steps=0")
        assert (
            "the card Unscripted-v0 has no scripted team to imitate: start from a pretrained model" in found
        )


def test_anchors_of_a_card_without_a_scripted_team_are_found_before_the_warm_start(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("extends: mathchat\nid: Adrift-v0\ntitle: Own\nscripted: ''\n")
    found = problems(f"env.id={tmp_path}", "bias.anchors=20")
    assert "anchors: bias.anchors=20: Adrift-v0 has no scripted team; set bias.anchors=0." in found


@pytest.mark.parametrize("key", ["eval.episodes", "eval.also.mappa/MathChat-v0"])
def test_repeats_of_too_few_tasks_are_found_before_the_warm_start(key: str) -> None:
    (found,) = problems("eval.episodes=8", "eval.group_size=4", f"{key}=8000")
    assert f"{key}=8000 with eval.group_size=4 needs 2000 tasks, but there are 1152; use {key}=4608." in found


def test_broken_prompts_of_either_length_and_broken_coach_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text(
        "extends: mathchat\nid: Broken-v0\ntitle: Broken\n"
        "coach: {rubric: rubric.yaml, questions: coach.yaml, truth: []}\n"
    )
    (tmp_path / "rubric.yaml").write_text("no_such_key: 1\n")
    (tmp_path / "coach.yaml").write_text("versoin: 1\n")
    prompts = tmp_path / "prompts" / "full"
    prompts.mkdir(parents=True)
    (prompts / "solver.jinja").write_text("{{ task.no_such_field.at_all }}\n")
    found = problems(f"env.id={tmp_path}")
    assert any("rubric.yaml" in line for line in found), found
    assert any("coach.yaml" in line for line in found), found
    assert any(line.startswith("prompts: the full prompts of the card Broken-v0") for line in found), found
    assert not any("the compact prompts" in line for line in found), found


KEY = "sk-proj-" + "a1B2c3D4" * 5
MODEL = "openai:m@http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    "coach",
    [
        {"name": MODEL, "extra": {"user": KEY}},
        {"name": MODEL, "extra": {"headers": [{"Authorization": f"Bearer {KEY}"}]}},
        {"name": MODEL, "extra": {"api_key": "short"}},
        {"name": MODEL, "extra": {KEY: 1}},
        {"name": MODEL, "budgets": KEY},
        {"name": f"openai:m@http://user:{KEY}@127.0.0.1:9/v1"},
    ],
)
@pytest.mark.parametrize("purpose", ["train", "generate", "evaluate", "replay"])
def test_a_key_among_the_coachs_options_is_refused_and_not_quoted(
    coach: dict[str, Any], purpose: Purpose
) -> None:
    config = load_config("demo", [*CALM, f"env.coach={json.dumps(coach)}"])
    (found,) = find_problems(config, Path("runs"), purpose=purpose)
    assert "looks like a key" in found.message
    assert "key_variable" in found.message
    assert KEY not in str(found)
    assert "short" not in str(found)


def test_fields_that_only_sound_like_keys_are_no_problem() -> None:
    extra = {"min_tokens": 5, "stop_token_ids": [1, 2], "prompt_cache_key": 3}
    coach = {"name": MODEL, "extra": extra, "key_variable": "MY_KEY"}
    found = problems(f"env.coach={json.dumps(coach)}", probe=False)
    assert not any("looks like a key" in each for each in found)


def test_a_run_with_a_key_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coach = json.dumps({"name": MODEL, "extra": {"user": KEY}})
    arguments = [*CALM, f"env.coach={coach}", f"run.out={tmp_path / 'runs'}"]
    assert main(["train", "demo", *arguments]) != 0
    said = capsys.readouterr()
    assert "looks like a key" in said.err
    assert KEY not in said.err + said.out
    assert list(tmp_path.iterdir()) == []


def test_a_coach_that_does_not_answer_is_found_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coach, "PROBE_S", 4.0)
    with serving("openai", otherwise=failing(503, "loading")) as fake:
        (found,) = problems(f"env.coach={{name: 'openai:m@{fake.url}', base_s: 0.1}}")
        assert len(fake.calls) > 1  # a busy server gets another chance
    assert found.startswith(f'coach: the test call failed: openai:m@{fake.url} answered 503 "loading"; start')
    assert problems("env.coach={name: 'openai:m@http://127.0.0.1:9/v1'}", probe=False) == []
    with serving("openai") as fake:
        assert problems(f"env.coach={{name: 'openai:m@{fake.url}'}}") == []
        assert len(fake.calls) == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/v1", "connection refused"),
        ("http://no-such-host.invalid/v1", r"unknown host \([^()]+\)"),
    ],
)
def test_a_coach_that_is_down_is_said_at_once_in_one_sentence(url: str, said: str) -> None:
    began = time.monotonic()
    (found,) = problems(f"env.coach={{name: 'openai:m@{url}', base_s: 0.01}}")
    assert time.monotonic() - began < coach.PROBE_S / 2
    remedy = "start the coach's server, or choose another env.coach."
    assert re.fullmatch(f"coach: the test call failed: openai:m@{re.escape(url)}: {said}; {remedy}", found)


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (401, "no such key: {key}, sk-se***word", "the key is missing or wrong; check OPENAI_API_KEY."),
        (404, "The model `m` does not exist. {key}", "check its name and its URL."),
    ],
)
def test_a_coach_that_refuses_is_quoted_in_one_bounded_sentence(
    status: int, words: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-secret-word"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    said = words.format(key=key)
    with serving("openai", otherwise=failing(status, said + " x" * 1000)) as fake:
        (found,) = problems(f"env.coach={{name: 'openai:m@{fake.url}'}}")
        assert len(fake.calls) == 1
    quoted = said.replace(key, "[key]").replace("sk-se***word", "[key]")
    assert found.startswith(f'coach: openai:m@{fake.url} answered {status} "{quoted} x x')
    assert found.endswith(remedy)
    assert "sk-se" not in found
    assert "\n" not in found
    assert len(found) < 600


def test_memory_and_disk_are_compared_with_what_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert free_disk(tmp_path / "not" / "yet") > 0
    assert free_memory() is None or free_memory() > 10**6  # type: ignore[operator]
    monkeypatch.setattr(resources, "free_memory", lambda: 1000)
    monkeypatch.setattr(resources, "free_disk", lambda folder: 1000)
    found = problems()
    assert [line.split(":")[0] for line in found] == ["memory", "disk"]
    assert "lower optim.tokens_per_micro_batch" in found[0]
    assert "lower run.keep_checkpoints" in found[1]


def test_a_resumed_run_needs_room_only_for_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a disk that had room for all of a run's checkpoints when it began."""
    config = load_config("demo", [*CALM, "run.keep_checkpoints=2"])
    need = resources.Footprint(Memory(*[0] * 13), 1, 10**12, (), 100, 300, False, False, warm_disk=400)
    monkeypatch.setattr(resources, "free_memory", lambda: 10**11)
    room = 300

    def concerns() -> list[str]:
        monkeypatch.setattr(resources, "free_disk", lambda folder: room - resources.size_of(tmp_path))
        return [problem.concern for problem in resources.resource_problems(config, need, tmp_path)]

    assert concerns() == ["memory", "disk"]
    (tmp_path / "warmstart.unfinished").mkdir()
    (tmp_path / "warmstart.unfinished" / "weights").write_bytes(bytes(200))
    room = 500
    assert concerns() == ["memory"]
    shutil.rmtree(tmp_path / "warmstart.unfinished")
    room = 300
    (tmp_path / "warmstart").mkdir()
    assert concerns() == []
    for step in ("step-000001", "step-000002"):
        (tmp_path / "checkpoints" / step / "policies").mkdir(parents=True)
        (tmp_path / "checkpoints" / step / "policies" / "weights").write_bytes(bytes(100))
        assert concerns() == []
    room = 299
    (problem,) = resources.resource_problems(config, need, tmp_path)
    assert problem.concern == "disk"
    assert "GB more, but only" in problem.message


@pytest.mark.parametrize("purpose", ["train", "generate", "evaluate"])
def test_an_engine_that_is_not_installed_is_found_before_any_purpose(
    purpose: Literal["train", "generate", "evaluate"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it were not installed
    found = find_problems(
        load_config("demo", [*CALM, "engine.name=vllm"]), Path("runs"), purpose=purpose, probe=False
    )
    assert [problem.concern for problem in found] == ["engine"]
