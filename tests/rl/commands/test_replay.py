"""Recorded rollouts come back bit for bit, and training on them gives the run's own weights and numbers."""

from __future__ import annotations

import gzip
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from fake_llm import serving
from mappa_rl.cli import main
from mappa_rl.config import load_config
from mappa_rl.config.run_folder import write_config
from mappa_rl.errors import RunError
from mappa_rl.rollout.records import FOLDER, Recorded, read_step, recorded_steps, write_step
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.types import Rollout, Turn
from tiny_run import TINY

STEPS = 3
SMALL = [
    *TINY,
    "run.checkpoint_every=1",
]
PLAYED = ("time/", "tokens_per_s", "score/", "bias")
"""Metrics of playing, not of the learner."""

ids = st.lists(st.integers(0, 2**31), min_size=1, max_size=8)
logprob = st.floats(max_value=0, allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
number = st.floats(allow_nan=False)


@st.composite
def turn_of(draw: st.DrawFn) -> Turn:
    action = draw(ids)
    size = len(action)
    return Turn(
        agent=draw(words),
        policy=draw(words),
        step=draw(st.integers(0, 9)),
        turn=draw(st.integers(0, 9)),
        context_ids=draw(ids),
        action_ids=action,
        logprobs=draw(st.lists(logprob, min_size=size, max_size=size)),
        stopped=draw(st.sampled_from(["eos", "length"])),
        valid=draw(st.booleans()),
        reward=draw(st.floats(allow_nan=False, allow_infinity=False)),
        stratum=(draw(words), draw(words), draw(st.integers(0, 9))),
    )


turns = st.lists(turn_of(), max_size=3).map(tuple)
rollouts = st.builds(
    Rollout,
    turns=turns,
    task_id=words,
    topic=words,
    seed=st.integers(0, 2**63 - 1),
    success=st.booleans(),
    score=number,
    metrics=st.dictionaries(words, number, max_size=3),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(rollouts, max_size=3), turns, st.integers(1, 10**7), st.integers(0, 10**9))
def test_a_step_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    episodes: list[Rollout],
    corrected: tuple[Turn, ...],
    step: int,
    tokens: int,
) -> None:
    out = tmp_path_factory.mktemp("records")
    before = Recorded(step, episodes, list(corrected), tokens)
    path = write_step(out, before)
    first = path.read_bytes()
    assert read_step(path) == before
    assert write_step(out, before).read_bytes() == first
    assert [found.name for found in (out / FOLDER).iterdir()] == [f"step-{step:06d}.jsonl.gz"]


def sound() -> Recorded:
    turn = Turn("a_0", "a_0", 0, 0, [1, 2], [3, 4], [-0.5, -0.1], "eos", 7.0, True, ("math", "a", 0))
    return Recorded(1, [Rollout((turn,), "t-1", "sums", 3, True, 1.0)], [turn], 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda text: text.replace('"mappa-rollouts"', '"others"'),
            "does not contain recorded rollouts: format",
        ),
        (lambda text: text.replace('"version":1', '"version":2'), "has version 2 of the format"),
        (lambda text: text.rsplit("\n", 2)[0] + "\n", "has 1 lines after its header"),
        (lambda text: text.replace("[3,4]", '[3,"4"]', 1), "line 2: turns.0.action_ids.1"),
        (lambda text: text.replace('"agent"', '"agnet"', 1), "line 2: turns.0.agent"),
        (lambda text: text.replace('"eos"', '"stop"', 1), "line 2: turns.0.stopped"),
        (lambda text: text.replace("[3,4]", "[3]", 1), "line 2, action 0 of a_0: 2 log-probs for 1 ids"),
        (lambda text: text.replace("-0.5", "0.5", 1), "a log-prob is not finite, or is above 0"),
        (lambda text: text.replace("-0.5", "NaN", 1), "a log-prob is not finite, or is above 0"),
        (lambda text: text.replace("[1,2]", "[]", 1), "its context or its action is empty"),
        (lambda text: text.replace("[1,2]", "[-1,2]", 1), "a token id is negative"),
        (lambda text: text.replace("7.0", "Infinity", 1), "its reward inf is not finite"),
        (lambda text: "", "does not contain recorded rollouts"),
    ],
)
def test_a_damaged_file_is_refused_by_line(tmp_path: Path, change: object, said: str) -> None:
    path = write_step(tmp_path, sound())
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(change(text).encode()))  # type: ignore[operator]
    with pytest.raises(RunError) as caught:
        read_step(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_cut_short_missing_or_out_of_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no recorded rollouts\. Train with"):
        recorded_steps(tmp_path)
    path = write_step(tmp_path, sound())
    assert recorded_steps(tmp_path) == recorded_steps(tmp_path / FOLDER) == [path]
    whole = path.read_bytes()
    for cut in (whole[: len(whole) // 2], b"text", whole[:-4] + b"\0\0\0\0"):
        path.write_bytes(cut)
        with pytest.raises(RunError, match="is damaged or not a gzip file"):
            read_step(path)
    path.rename(path.with_name("step-000003.jsonl.gz"))
    with pytest.raises(RunError, match="step 1 is missing"):
        recorded_steps(tmp_path)


def test_a_replay_is_checked_before_its_model_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_step(tmp_path, sound())
    (tmp_path / "warmstart").mkdir()
    (tmp_path / "warmstart" / "config.json").write_text("{}")
    with serving("openai") as fake:
        coach = f"env.coach={{name: 'openai:m@{fake.url}'}}"
        write_config(load_config("demo", [coach, "run.tensorboard=false"]), tmp_path)
        wrong = ["algo.name=reinforce", "algo.loss=pp0", "run.processes=2"]
        assert main(["replay", str(tmp_path), *wrong]) == 2
        assert fake.calls == []
    said = capsys.readouterr().err
    assert "3 problems keep this run from starting:" in said
    assert "algorithm: algo.name='reinforce' is not an algorithm" in said
    assert "loss: algo.loss='pp0'" in said
    assert "processes: run.processes=2, but a replay learns in one process: set run.processes=1." in said
    assert not (tmp_path / "replay").exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recorded") / "run"
    more = [f"run.steps={STEPS}", "run.record_rollouts=true", "algo.name=ema", "optim.minibatches=2"]
    assert main(["train", "demo", f"out={out}", *SMALL, *more]) == 0
    return out


def weights(out: Path) -> dict[str, dict[str, bytes]]:
    final = out / "checkpoints" / f"step-{STEPS:06}" / "policies"
    return {
        policy.name: {k: v.tobytes() for k, v in load_file(policy / "model" / "model.safetensors").items()}
        for policy in sorted(final.iterdir())
    }


def learned(out: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if not k.startswith(PLAYED)} for row in read_metrics(out)]


@pytest.mark.slow
def test_dry_runs_of_eval_and_generate_say_what_would_be_played(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    assert main(["eval", str(run), "--dry-run", "eval.episodes=7"]) == 0
    shown = capsys.readouterr().out
    assert f"weights: {run / 'checkpoints'}/step-00000{STEPS}" in shown
    assert "changed: eval.episodes=7" in shown
    assert re.search(r"evaluation before +7 ", shown)
    assert re.search(r"evaluation after +7 ", shown)
    assert "coach: rubric judges per run: 42 to 56 actions in evaluation" in shown
    assert not re.search("training|warm start", shown)
    assert shown.splitlines()[-2:] == [f"folder: {run / 'again'}", "problems: none"]
    assert main(["generate", str(run), "--dry-run", "run.steps=2"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"generating +16 +2 ", shown)
    assert "coach: rubric judges per run: 48 to 64 actions in training" in shown
    assert not re.search("evaluation|warm start", shown)
    assert main(["eval", str(run), "--dry-run", "env.shaping=proc"]) == 2
    assert "shaping='proc' is not a shaping" in capsys.readouterr().out.split("problems (1):")[1]
    assert main(["eval", str(run), "--dry-run", "--checkpoint", "99"]) == 1
    assert sorted(run.rglob("*")) == before


@pytest.mark.slow
def test_a_replay_gives_the_weights_and_metrics_of_its_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def played(*_: object, **__: object) -> None:
        raise AssertionError("a replay makes no environment")

    monkeypatch.setattr("gymnasium.make", played)
    assert main(["replay", str(run), f"out={tmp_path / 'again'}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "again")
    assert weights(tmp_path / "again") == weights(run)
    found, expected = learned(tmp_path / "again"), learned(run)
    assert len(found) == STEPS
    common = [{k: row[k] for k in own} for own, row in zip(found, expected, strict=True)]
    assert found == common
    assert {"loss/solver_0", "entropy/coder_0", "success", "reward/verifier_0", "tokens"} <= set(found[0])


@pytest.mark.slow
def test_a_replay_may_learn_otherwise_from_the_same_episodes(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run), "algo.name=reinforce_pp", "optim.lr=1e-3", "run.steps=2"]) == 0
    out = Path(capsys.readouterr().out.splitlines()[-1])
    assert out == run / "replay"
    rows, first = read_metrics(out), read_metrics(run)
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["success"] == first[0]["success"]
    assert rows[1]["loss/solver_0"] != first[1]["loss/solver_0"]


@pytest.mark.slow
def test_a_replay_keeps_to_its_disk_budget(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = ["run.checkpoint_every=1", f"run.keep_checkpoints={STEPS}", f"out={tmp_path / 'again'}"]
    assert main(["replay", str(run), *many, "run.checkpoints_mb=1"]) == 2
    found = re.search(r"run.checkpoints_mb=1 must be at least (\d+)", capsys.readouterr().err)
    assert found
    assert main(["replay", str(run), *many, f"run.checkpoints_mb={found[1]}"]) == 0
    assert len(list((tmp_path / "again" / "checkpoints").glob("step-*"))) < STEPS


@pytest.mark.slow
def test_generated_episodes_are_those_of_a_first_step(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "episodes"
    start = f"warmstart.path={run / 'warmstart'}"
    assert main(["generate", "demo", f"out={out}", *SMALL, start, "run.steps=2"]) == 0
    assert [path.name for path in recorded_steps(out)] == ["step-000001.jsonl.gz", "step-000002.jsonl.gz"]
    assert recorded_steps(out)[0].read_bytes() == recorded_steps(run)[0].read_bytes()
    assert not (out / "checkpoints").exists()
    assert main(["replay", str(out), "algo.kl_coef=0"]) == 0
    assert main(["generate", str(run), "run.steps=1"]) == 0
    assert Path(capsys.readouterr().out.splitlines()[-1]) == run / "generated"
    later = read_step(recorded_steps(run / "generated")[0])
    first = read_step(recorded_steps(run)[0])
    assert [r.seed for r in later.rollouts] == [r.seed for r in first.rollouts]
    assert later != first  # other weights played them


@pytest.mark.slow
def test_what_a_replay_cannot_change_or_find_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run), "rollout.temperature=0.5"]) == 2
    assert "replay can change only algo.*" in capsys.readouterr().err
    assert main(["replay", str(run), "sft.corrections_coef=1"]) == 2
    assert "that run had sft.corrections_coef=0, and recorded no corrections." in capsys.readouterr().err
    shutil.copytree(run / FOLDER, tmp_path / FOLDER)
    shutil.copy(run / "config.yaml", tmp_path / "config.yaml")
    assert main(["replay", str(tmp_path)]) == 1
    assert "a replay needs the weights that its run began with" in capsys.readouterr().err
    assert math.isfinite(read_metrics(run)[0]["success"])
