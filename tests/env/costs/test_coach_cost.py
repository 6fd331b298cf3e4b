"""``mappa-env coach cost``: the forecast against the calls that a real run made to the fake server."""

from __future__ import annotations

import json
import socket
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

import fake_llm as fakes
from mappa_env.cli import main
from mappa_env.costs.forecast import forecast
from mappa_env.costs.run_plan import RunPlan, find, of_recipe, recipes
from mappa_env.envs.partners import Partners
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.registration import find_card

FLASH = "gemini:gemini-3.8-flash"


def counting(server: fakes.FakeServer, call: fakes.Call) -> Any:
    """A verdict; tokens are counted at four characters each."""
    text = json.dumps(fakes.verdict(server, call))
    found = fakes.envelope(server, text)
    found["usage"] = {"prompt_tokens": round(len(call.text) / 4), "completion_tokens": round(len(text) / 4)}
    return 200, {}, json.dumps(found).encode()


def plan(env_id: str, training: int, **options: Any) -> RunPlan:
    return RunPlan("test", env_id, options, None, training, 0)


@pytest.mark.parametrize(
    ("folder", "options"),
    [("dsbench_sprint", {"sandbox": "local", "prompts": "compact"}), ("mathchat", {"sandbox": "calculator"})],
)
def test_the_forecast_is_what_a_run_asks(folder: str, options: dict[str, Any], tmp_path: Path) -> None:
    card, ledger = find_card(folder), tmp_path / "ledger.jsonl"
    with fakes.serving("openai", otherwise=counting) as server:
        coach = f"openai:m@{server.url}"
        found = forecast(plan(card.id, 2, **options), card, coach, samples=2)
        assert not server.calls
        episode = Episode(card, coach={"name": coach, "ledger": ledger}, **options)
        for seed, kind in enumerate(("expert", "faulty")):
            team = Partners(card, kind, agent=None, prompts=options.get("prompts", "full"))
            episode.reset(seed=seed)
            team.reset(episode)
            while not episode.over:
                episode.act(team.act(episode))
        episode.close()
    rows = [json.loads(line) for line in ledger.read_text().splitlines()]
    low, typical, high = found.cases.values()
    assert typical.calls == len(rows) == len(server.calls)
    if folder == "dsbench_sprint":  # one turn each
        assert low.calls == high.calls == len(rows)
    assert typical.prompt == pytest.approx(sum(row["prompt"] for row in rows), rel=0.02)
    assert high.output >= sum(row["output"] for row in rows)
    assert typical.dollars is None


def test_a_recipe_says_how_many_episodes_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    run = {
        "env": {"id": "mappa/AMC-v0", "coach": FLASH, "task_options": {"a": 1}},
        "run": {"steps": 5},
        "rollout": {"episodes_per_step": 10},
        "eval": {"episodes": 7, "temperatures": [1.0, 0.5]},
    }
    path.write_text(yaml.safe_dump(run))
    found = find(str(path))
    assert (found.env_id, found.coach, found.training, found.evaluation) == ("mappa/AMC-v0", FLASH, 50, 14)
    assert found.options["task_options"] == {"a": 1}
    assert (of_recipe(path, episodes=3, steps=2).training, of_recipe(path, steps=0).training) == (6, 0)
    run["env"]["coach_feedback"] = "agents"  # then every episode needs the coach
    run["eval"] |= {"calibration_temperatures": [0.5, 0.2], "calibration_episodes": 4, "every": 2}
    path.write_text(yaml.safe_dump(run))
    assert find(str(path)).evaluation == 3 * 4 + 7 * (2 * 3 + 2 * 2)


@pytest.mark.parametrize("text", ["[1]", "env: 3", "run: {steps: many}", "env: ["])
def test_what_is_not_a_recipe_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(OptionError, match=r"mine\.yaml"):
        find(str(path))


def test_models_have_prices_limits_and_an_end() -> None:
    card = find_card("mathchat")
    cheap = plan(card.id, 1000, sandbox="null")
    found = forecast(cheap, card, "gemini:gemini-2.5-flash", samples=1, today=date(2026, 11, 22))
    assert "WARNING: gemini-2.5-flash retires on 2026-12-01" in "\n".join(found.notes)
    old = forecast(cheap, card, "gemini:gemini-2.5-flash", samples=1, today=date(2026, 1, 1))
    assert "WARNING" not in "\n".join(old.notes)
    low, typical, high = found.cases.values()
    costs = [case.dollars or 0.0 for case in (low, typical, high)]
    assert 0 < costs[0] < costs[1] < costs[2]
    assert high.hours == pytest.approx(max(high.calls / 1000, (high.prompt + high.output) / 1e6) / 60)
    twice = forecast(
        cheap, card, {"name": "gemini:gemini-2.5-flash", "samples": 2, "budget": 0.01}, samples=1
    )
    assert twice.cases["low"].calls == 2 * low.calls
    assert "budget=0.01 ends the run early" in "\n".join(twice.notes)
    coarse = forecast(cheap, card, "gemini:gemini-2.5-flash", samples=1, chars_per_token=2.0, thoughts=0)
    assert coarse.cases["typical"].prompt == pytest.approx(2 * typical.prompt, rel=0.001)
    assert coarse.cases["typical"].output == pytest.approx(2 * low.output, rel=0.001)


def test_the_command_needs_neither_key_nor_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def refuse(*args: Any) -> None:
        raise AssertionError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    target = tmp_path / "cost.json"
    small = ["--sandbox", "calculator", "--samples", "2", "--steps", "3", "--episodes", "5"]
    assert main(["coach", "cost", "mappa/MathChat-v0", "--coach", FLASH, *small, "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    assert written["episodes"] == 15
    assert set(written["cases"]) == {"low", "typical", "high"}
    shown = capsys.readouterr().out
    assert "a guess" in shown
    assert "episodes: 15 of training" in shown
    if "demo" in recipes():
        assert main(["coach", "cost", "demo", *small]) == 2
        assert "does not call a model, so it is free" in capsys.readouterr().err
    assert main(["coach", "cost", "mappa/MathChatt-v0", "--coach", FLASH]) == 2
    assert "neither a recipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("coach", "words"),
    [
        ("gemini", "does not name a model: write gemini:<model> (gemini:gemini-"),
        ("openai", "does not name a model: write openai:<model>@<base_url>."),
        ("gemni:flash", "unknown coach 'gemni:flash'. Did you mean 'gemini'?"),
        ("off", "'off' does not call a model, so it is free."),
        ("replay:calls.sqlite", "does not call a model, so it is free."),
    ],
)
def test_only_a_coach_that_calls_no_model_costs_nothing(
    coach: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coach", "cost", "mappa/MathChat-v0", "--coach", coach]) == 2
    assert words in capsys.readouterr().err


def test_defaults_are_the_learners() -> None:
    config = pytest.importorskip("mappa_rl.config").Config()
    from mappa_env.costs.run_plan import DEFAULTS

    for section, values in DEFAULTS.items():
        for name, value in values.items():
            assert getattr(getattr(config, section), name) == value, f"{section}.{name}"


def test_anchors_are_judged_again_and_again(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "rollout: {episodes_per_step: 4}\neval: {episodes: 5}\nrun: {steps: 20}\n"
        "bias: {anchors: 8, anchors_every: 10}\nenv: {shaping: {name: backward}}\n",
        encoding="utf-8",
    )
    plan = of_recipe(recipe)
    assert (plan.training, plan.evaluation, plan.anchors, plan.episodes) == (80, 10, 24, 114)
    assert plan.traced
