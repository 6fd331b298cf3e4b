"""Bias in a run: corrected rewards, bias tests, frozen anchors that are judged again, and a resume."""

from __future__ import annotations

import copy
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import mappa_env
from mappa_env.coach.bias.drift import TOLERANCE, drifts
from mappa_env.coach.bias.strata import BiasCorrection
from mappa_env.types import Outcome, Task, Trajectory, Verdict
from mappa_rl.coach.anchors import FILE, Anchors
from mappa_rl.coach.bias import CoachBias
from mappa_rl.coach.bias_state import BiasState
from mappa_rl.config import Config, load_config
from mappa_rl.errors import ConfigError
from mappa_rl.report.html import build_report
from mappa_rl.rollout.types import Collected
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.sinks import Metrics, read_metrics
from mappa_rl.training import loop
from mappa_rl.training.trainer import train
from mappa_rl.types import Rollout, Turn
from paths import HELPERS
from recorded import recorded
from synthetic_run import make_run
from tiny_run import TINY

CALCULATOR = {"sandbox": "calculator", "prompts": "compact"}
CLOCKS = ("time/", "tokens_per_s")
SMALL = [
    *TINY,
    "warmstart.steps=2",
    "rollout.episodes_per_step=4",
    "rollout.lockstep_groups=1",
    "rollout.max_new_tokens=8",
    "eval.episodes=1",
    "run.checkpoint_every=1",
    "run.steps=4",
    "bias.correct=mean_std",
    "bias.anchors=8",
    "bias.anchors_every=2",
    "bias.test_every=1",
]


@pytest.fixture(scope="module")
def fakes() -> Any:
    """The fake servers of the environment's tests."""
    path = HELPERS / "fake_llm.py"
    spec = importlib.util.spec_from_file_location("fake_llm_of_the_environment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def progress() -> Iterator[Progress]:
    with Progress("x") as found:
        yield found


def collected(rng: np.random.Generator, shift: float, count: int = 64) -> Collected:
    """Episodes of two families; ``regression`` gets ``shift`` points more; every fifth action none."""
    rollouts, trajectories = [], []
    for number in range(count):
        family, success = number % 2, bool(rng.random() < 0.5)
        task = Task(f"t{number}", "", ("accuracy", "rmse")[family])
        actions, turns = [], []
        for step, agent in enumerate(("engineer_0", "modeler_0")):
            score = float(np.clip(4 + 2 * success + rng.normal(0, 1) + shift * family, 0, 10))
            ok = (number + step) % 5 > 0
            verdict = Verdict("ok", score) if ok else Verdict("suspect", score)
            stratum = (task.family, agent[:-2], 0)
            given = {"verdict": verdict, "stratum": stratum, "reward": score * ok, "reward_valid": ok}
            actions.append(recorded(agent, step=step, **given))
            turns.append(Turn(agent, agent, step, 0, [1], [2], [-0.1], "eos", score * ok, ok, stratum))
        outcome = Outcome(float(success), success, "ok", "")
        trajectories.append(Trajectory("x", task, number, tuple(actions), outcome))
        rollouts.append(Rollout(tuple(turns), task.id, "", number, success, float(success)))
    return Collected(rollouts, trajectories)


def rewards(batch: Collected) -> list[tuple[float, bool]]:
    return [(turn.reward, turn.valid) for rollout in batch.rollouts for turn in rollout.turns]


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_rewards_are_what_the_shaping_pays_for_corrected_scores(
    weight: float, tmp_path: Path, progress: Progress
) -> None:
    mixed = f"{{name: mixed, process_weight: {weight}, outcome_weight: {1 - weight}}}"
    shaping = "process" if weight == 1 else mixed
    config = load_config("demo", ["bias.correct=mean", "bias.test_every=2", f"env.shaping={shaping}"])
    rng, bias, correction = (
        np.random.default_rng(0),
        CoachBias(config, tmp_path, progress),
        BiasCorrection(spread=False),
    )
    for step in range(1, 9):
        batch = collected(rng, 1.0)
        raw, unchanged = list(batch.trajectories), copy.deepcopy(batch)
        corrected, values = bias.step(step, batch)
        assert batch == unchanged
        assert corrected.trajectories == raw
        assert step == 1 or rewards(corrected) != rewards(batch)
        judged = [(t, a) for t in raw for a in t.actions if a.verdict.status == "ok"]
        scores = correction([(action.stratum, action.verdict.score) for _, action in judged])
        received = [reward for reward, valid in rewards(corrected) if valid]
        assert received == pytest.approx(
            [
                weight * score + (1 - weight) * 10 * trajectory.outcome.score
                for score, (trajectory, _) in zip(scores, judged, strict=True)
            ]
        )
        assert all(reward == 0 for reward, valid in rewards(corrected) if not valid)
    name = "regression/modeler"
    mine = [a.stratum == ("regression", "modeler", 0) for _, a in judged]
    assert values[f"score/{name}"] == pytest.approx(
        np.mean([a.verdict.score for (_, a), m in zip(judged, mine, strict=True) if m])
    )
    assert values[f"score_corrected/{name}"] == pytest.approx(np.array(scores)[mine].mean())
    assert values[f"corrected/{name}/0"] == pytest.approx(np.array(received)[mine].mean())
    assert values["bias/alarms"] == 1
    assert 0.5 < values[f"bias_mean/{name}/0"] - values["bias_mean/classification/modeler/0"] < 1.5
    assert 1 < values[f"bias_sd/{name}/0"] < 2
    assert values["bias_low/offset/regression"] < 1 < values["bias_high/offset/regression"]


def test_an_alarm_says_what_was_found(
    tmp_path: Path, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    bias = CoachBias(load_config("demo", ["bias.test_every=1"]), tmp_path, progress)
    batch = collected(np.random.default_rng(0), 2.0, count=200)
    assert bias.step(1, batch)[0] is batch
    said = " ".join(capsys.readouterr().out.split())
    assert "step 1: the coach scores regression +" in said
    assert "at equal outcome [+" in said
    assert "100 of 200 trajectories)" in said


def test_a_checkpoint_carries_everything(tmp_path: Path, progress: Progress) -> None:
    config = load_config("demo", ["bias.correct=mean_std", "bias.test_every=1"])
    rng, one = np.random.default_rng(0), CoachBias(config, tmp_path, progress)
    for step in (1, 2):
        one.step(step, collected(rng, 0.5))
    stored = BiasState.from_dict(json.loads(json.dumps(one.state().to_dict())))
    other = CoachBias(config, tmp_path, progress, stored)
    batch = collected(np.random.default_rng(5), 0.5)
    assert one.step(3, batch) == other.step(3, batch)
    assert one.state() == other.state()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["bias.correct=mean", "env.shaping=outcome"], "Use bias.correct=off"),
        (["bias.correct=mean", "env.coach=off"], "Use bias.correct=off"),
        (["bias.anchors=8", "env.coach=off"], "Use bias.anchors=0"),
        (["bias.anchors=8", "env.coach=replay:x"], "Use bias.anchors=0"),
        (["bias.anchors=3"], "use 0, or at least 8"),
    ],
)
def test_settings_that_make_no_sense_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("demo", overrides)


# -- anchors ----------------------------------------------------------------------------------------------


def test_anchors_are_frozen_and_the_rubric_does_not_drift(tmp_path: Path) -> None:
    with Anchors(tmp_path / FILE, "mappa/MathChat-v0", CALCULATOR, count=10, workers=2) as made:
        evidence = made._episode.evidence
        now = made.judge()
    frozen = (tmp_path / FILE).read_bytes()
    assert [found.mean for found in drifts(made.pairs(now), 1)] == [0.0] * len(drifts(made.pairs(now), 1))
    assert len(drifts(made.pairs(now), 1)) >= 4
    assert made.anchors[-1].evidence == evidence
    scores = [verdict.score for anchor in made.anchors for verdict in anchor.verdicts]
    assert len(set(scores)) > 2
    assert all(task.truth for task in (each.task for a in made.anchors for each in a.evidence))
    assert b'"truth":{' not in frozen
    with Anchors(tmp_path / FILE, "mappa/MathChat-v0", CALCULATOR, count=99, workers=2) as again:
        assert again.anchors == made.anchors
        assert again.judge() == now
    assert (tmp_path / FILE).read_bytes() == frozen


@pytest.mark.slow
def test_anchors_of_teams_that_write_files_are_read_back_whole(tmp_path: Path) -> None:
    options = {"sandbox": {"name": "process"}, "prompts": "compact"}
    with Anchors(tmp_path / FILE, "mappa/DSBenchSprint-v0", options, count=1, workers=2) as made:
        evidence = made._episode.evidence
        assert any(each.present for each in evidence)
        assert any(each.probe for each in evidence)
        assert made.anchors[0].evidence == evidence
        assert made.judge()[0] == made.anchors[0].verdicts


@pytest.mark.slow
def test_a_coach_who_grows_stricter_is_found_past_its_cache(
    fakes: Any,
    tmp_path: Path,
    progress: Progress,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    rng = np.random.default_rng(0)
    with fakes.serving("openai") as fake:
        coach = f"{{name: 'openai:fake@{fake.url}', cache: {tmp_path / 'calls.sqlite'}}}"
        overrides = [
            f"env.coach={coach}",
            "env.sandbox=calculator",
            "bias.anchors=10",
            "bias.anchors_every=1",
        ]
        with CoachBias(load_config("demo", overrides), tmp_path, progress) as bias:
            asked = len(fake.calls)
            _, values = bias.step(1, collected(rng, 0.0))
            assert len(fake.calls) == 2 * asked
            assert (values["anchors/all"], values["anchors/alarms"], values["anchors/not_ok"]) == (0, 0, 0)
            fake.grade = lambda call, name: 2
            _, values = bias.step(2, collected(rng, 0.0))
            assert values["anchors/all"] == values["anchors_high/all"] < -TOLERANCE
            assert values["anchors/alarms"] > 1
            fake.otherwise = fakes.blocked
            _, values = bias.step(3, collected(rng, 0.0))
            assert (values["anchors/not_ok"], values["anchors/alarms"]) == (1, 0)
            assert "anchors/all" not in values
    said = " ".join(capsys.readouterr().out.split())
    alarm = "its scores of the anchors (all actions) changed by -2.50 points [-2.50, -2.50]"
    assert f"step 2: the coach has drifted: {alarm}" in said
    assert "step 1: the coach has drifted" not in said


def test_a_card_without_a_scripted_team_has_no_anchors(tmp_path: Path) -> None:
    folder = tmp_path / "card"
    shutil.copytree(Path(mappa_env.__file__).parents[1] / "envs_registry" / "mathchat", folder)
    card = (folder / "card.yaml").read_text()
    card = card.replace("scripted: mathchat\n", "").replace("id: MathChat-v0", "id: Anchorless-v0")
    (folder / "card.yaml").write_text(card)
    name = mappa_env.register_card(folder)
    with pytest.raises(ConfigError, match=r"bias.anchors=8: Anchorless-v0 has no scripted team"):
        Anchors(tmp_path / FILE, name, CALCULATOR, count=8, workers=2)
    assert not (tmp_path / FILE).exists()


# -- a run ------------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.slow
def test_a_killed_and_resumed_run_with_corrections_and_anchors_equals_one_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(load_config("demo", SMALL), whole)
    honest = loop.train_step

    def killed(config: Config, parts: Any, training: Any, step: int, *rest: Any) -> dict[str, float]:
        if step == 3:
            raise Killed
        return honest(config, parts, training, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_step", killed)
        with pytest.raises(Killed):
            train(load_config("demo", SMALL), cut)
    train(load_config("demo", SMALL), cut, resume=True)
    rows = [
        [{k: v for k, v in row.items() if not k.startswith(CLOCKS)} for row in read_metrics(out)]
        for out in (whole, cut)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4
    assert "anchors/all" in rows[0][1]
    assert "anchors/all" not in rows[0][2]
    assert (whole / FILE).read_bytes() == (cut / FILE).read_bytes()
    final = "checkpoints/step-000004"
    assert (whole / final / "state.json").read_bytes() == (cut / final / "state.json").read_bytes()
    for policy in (whole / final / "policies").iterdir():
        mine, other = (
            load_file(out / final / "policies" / policy.name / "model" / "model.safetensors")
            for out in (whole, cut)
        )
        assert all(np.array_equal(mine[name], other[name]) for name in mine)


def test_the_report_shows_scores_findings_and_drift(tmp_path: Path) -> None:
    make_run(tmp_path, steps=1)
    with Metrics(tmp_path, resumed_at=1, tensorboard=False) as metrics:
        for step in range(2, 20):
            values = {f"score/{f}/modeler": 5.0 + i for i, f in enumerate(("classification", "regression"))}
            values |= {"score_corrected/regression/modeler": 5.5}
            if step % 5 == 0:
                for name in ("bias{}/offset/regression", "bias{}/slope/regression", "anchors{}/all"):
                    values |= {name.format(e): v for e, v in (("", 0.5), ("_low", 0.1), ("_high", 0.9))}
            metrics.log(step, values)
    page = build_report(tmp_path).read_text(encoding="utf-8")
    for said in (
        "regression, corrected",
        "offset, points",
        "slope, points",
        "judged again",
        "equally strict",
    ):
        assert said in page, said
