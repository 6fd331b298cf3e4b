"""``mappa-rl``: what it prints, where it writes, how it stops."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from mappa_rl import cli
from mappa_rl.cli import main
from mappa_rl.commands import fleet as launch
from mappa_rl.commands.fleet import plan_seeds, plan_shapings
from mappa_rl.commands.options import seeds
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import new_folder, write_config
from mappa_rl.errors import ConfigError
from mappa_rl.training.folder import adopt
from paths import ROOT
from synthetic_run import make_run

STAND_IN = """
import re, shutil, sys, time
from pathlib import Path
out, made = Path(sys.argv[1]), Path({made!r})
seed = int(re.search("[^_]seed: ([0-9]+)", (out / "config.yaml").read_text())[1])
print("working on seed", seed, flush=True)
with open(out.parent / "order.txt", "a") as file:
    file.write(out.name + "\\n")
{body}
(out / "evaluations").mkdir()
for path in made.glob("evaluations/*.jsonl"):
    text = path.read_text().replace('"run_seed": 0', '"run_seed": %d' % seed)
    (out / "evaluations" / path.name).write_text(text)
shutil.copy(made / "summary.json", out / "summary.json")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("made")
    make_run(out, steps=3, episodes=20)
    return out


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A training loop that writes a finished run at once."""
    module = ModuleType("mappa_rl.training.trainer")
    calls: list[tuple[Config, Path, bool]] = []

    def train(config: Config, out: Path, resume: bool, checked: bool, stopping: object) -> Path:
        config = write_config(config, out)
        calls.append((config, out, resume))
        make_run(out, seed=config.run.seed, steps=3, episodes=20)
        return out

    module.train, module.calls = train, calls  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mappa_rl.training.trainer", module)
    return module


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: Path) -> Path:
    """Runs of their own processes go through this script instead of real training."""
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN.format(made=str(made), body=""))
    monkeypatch.setattr(launch, "COMMAND", (sys.executable, str(script)))
    return script


def test_train_prints_its_folder_last_and_leaves_a_report(
    tmp_path: Path, trainer: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "demo", "algo.kl_coef=0.5", f"out={out}", "--seeds", "4", "algo.clip_low=0.3"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == str(out)
    assert "held-out success" in shown
    assert "T=1.0" in shown
    assert (out / "report.html").is_file()
    config, folder, resume = trainer.calls[0]
    assert (config.algo.kl_coef, config.algo.clip_low, config.run.seed) == (0.5, 0.3, 4)
    assert (folder, resume, config.run.out) == (out, False, str(out))


@pytest.mark.parametrize("command", ["train", "shape"])
def test_model_is_short_for_its_key(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "demo", "--model", "no/such", "--dry-run", "--no-rehearsal"]) == 2
    shown = capsys.readouterr().out
    assert "changed: model.kind=no/such" in shown
    assert "model.kind='no/such' is neither" in shown.replace("\n", " ")


def test_resume_keeps_the_settings_of_the_run(
    tmp_path: Path, trainer: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run", seed=3, finished=False)
    assert main(["train", "--resume", str(tmp_path / "run"), "run.steps=99"]) == 0
    config, _, resume = trainer.calls[0]
    assert (config.run.seed, config.run.steps, resume) == (3, 99, True)
    assert main(["train", "--resume", str(tmp_path / "run"), "algo.clip_low=0.3"]) == 2
    assert "--resume cannot change algo.clip_low=0.3" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "nothing")]) == 1
    assert "holds no run" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_whose_end_moves_is_measured_again(
    tmp_path: Path, trainer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[set[str]] = []

    def train(config: Config, out: Path, resume: bool, checked: bool, stopping: object) -> Path:
        adopt(config, out)
        left.append({str(path.relative_to(out)) for path in out.rglob("*.json*")})
        make_run(out, steps=3, episodes=20)
        return out

    monkeypatch.setattr(trainer, "train", train)
    make_run(tmp_path, steps=3, episodes=20)
    for steps in (3, 5):
        assert main(["train", "--resume", str(tmp_path), f"run.steps={steps}"]) == 0
    assert left[0] - left[1] == {
        "evaluations/after-T1.jsonl",
        "evaluations/after-T0.4.jsonl",
        "traces/after.jsonl",
        "summary.json",
    }
    assert {"evaluations/before-T1.jsonl", "metrics.jsonl"} <= left[1]


def test_ctrl_c_says_where_the_run_is_and_how_to_go_on(
    tmp_path: Path, trainer: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(config: Config, out: Path, resume: bool, checked: bool, stopping: object) -> Path:
        write_config(config, out)
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train", interrupted)
    assert main(["train", "demo", f"out={tmp_path / 'run'}"]) == 130
    assert capsys.readouterr().out.splitlines()[-1] == f"mappa-rl train --resume {tmp_path / 'run'}"
    assert load_config(tmp_path / "run" / "config.yaml").run.out == str(tmp_path / "run")


def test_ctrl_c_during_the_preflight_offers_nothing_to_resume(
    tmp_path: Path, trainer: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(config: Config, out: Path, resume: bool, checked: bool, stopping: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train", interrupted)
    assert main(["train", "demo", f"out={tmp_path / 'run'}"]) == 130
    shown = capsys.readouterr()
    assert "resume" not in shown.out + shown.err


def test_several_seeds_are_runs_of_their_own_with_one_report(
    tmp_path: Path, stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    assert main(["train", "demo", f"out={out}", "--seeds", "0,1,2", "--parallel", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == str(out)
    assert "seed-1 | working on seed 1" in shown
    for name in ("report.html", "summary.json", "seed-0/config.yaml", "seed-2/summary.json"):
        assert (out / name).is_file()
    assert "all" in shown


def test_shapes_share_the_warm_start_of_the_first(
    tmp_path: Path, stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    command = ["shape", "demo", f"out={out}", "--seeds", "0,1", "--shapings", "process,outcome"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "outcome - process" in shown
    order = (out / "order.txt").read_text().split()
    assert set(order[:2]) == {"process-seed-0", "process-seed-1"}
    assert set(order[2:]) == {"outcome-seed-0", "outcome-seed-1"}


def test_shapes_point_at_the_first_ones_warm_start(tmp_path: Path) -> None:
    folders = plan_shapings(load_config("demo"), tmp_path, [5], ["process", "outcome", "mixed"])
    configs = [load_config(folder / "config.yaml") for folder in folders]
    assert [config.env.shaping for config in configs] == ["process", "outcome", "mixed"]
    first = str(folders[0] / "warmstart")
    assert [config.warmstart.path for config in configs] == ["", first, first]
    assert {config.run.seed for config in configs} == {5}


@pytest.mark.slow
def test_resuming_several_runs_leaves_finished_ones_alone(
    tmp_path: Path, stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    plan_seeds(load_config("demo"), out, [0, 1, 2])
    make_run(out / "seed-1", seed=1, steps=3, episodes=20)
    assert main(["train", "--resume", str(out)]) == 0
    assert (out / "order.txt").read_text().split() == ["seed-0", "seed-2"]


def test_a_failed_run_is_named_and_the_others_go_on(
    tmp_path: Path, stand_in: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.write_text(STAND_IN.format(made=str(made), body="if seed == 1: sys.exit('no memory left')"))
    out = tmp_path / "runs"
    assert main(["train", "demo", f"out={out}", "--seeds", "0,1,2"]) == 1
    caught = capsys.readouterr()
    assert "seed-1 | no memory left" in caught.out
    assert f"1 of 3 runs failed: {out / 'seed-1'}." in caught.err
    assert f"train --resume {out}" in caught.err
    assert (out / "seed-2" / "summary.json").is_file()


@pytest.mark.slow
def test_ctrl_c_reaches_all_runs_and_waits_for_them(tmp_path: Path) -> None:
    out, script = tmp_path / "runs", tmp_path / "stand_in.py"
    code = """
try:
    (out / "asleep").touch()
    time.sleep(60)
except KeyboardInterrupt:
    (out / "tidy").touch()
    sys.exit(130)
"""
    script.write_text(STAND_IN.format(made="", body=code))
    parent = (
        "import sys; from mappa_rl import cli; from mappa_rl.commands import fleet as launch\n"
        "launch.COMMAND = (sys.executable, sys.argv[1])\n"
        "sys.exit(cli.main(['train', 'demo', f'out={sys.argv[2]}', '--seeds', '0,1,2', '--parallel', '2']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(script), str(out)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        order = out / "order.txt"
        until = time.monotonic() + 120
        while time.monotonic() < until and len(list(out.glob("*/asleep"))) < 2:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert shown.splitlines()[-1] == f"mappa-rl train --resume {out}"
    assert {path.parent.name for path in out.glob("*/tidy")} == {"seed-0", "seed-1"}
    assert len(order.read_text().split()) == 2


def test_a_taken_folder_is_not_written_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path)
    before = (tmp_path / "config.yaml").read_text()
    assert main(["train", "demo", f"out={tmp_path}"]) == 1
    assert f"resume its run with `mappa-rl train --resume {tmp_path}`" in capsys.readouterr().err
    assert (tmp_path / "config.yaml").read_text() == before


def test_folders_of_new_runs_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch.time, "strftime", lambda _: "20260101-000000")
    first = new_folder(load_config("demo"), "some/where/mine.yaml")
    assert first == Path("runs/mine-20260101-000000")
    first.mkdir(parents=True)
    assert new_folder(load_config("demo"), "mine") == Path("runs/mine-20260101-000000-2")


def test_a_refused_run_leaves_its_folder_free_for_the_corrected_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for _ in range(2):
        assert main(["train", "demo", f"out={out}", "policies.frozen=[nobody_0]"]) == 2
        assert "nobody_0" in capsys.readouterr().err
        assert not out.exists()


def test_eval_changes_only_how_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", finished=False)
    assert main(["eval", str(tmp_path / "run"), "model.hidden=64"]) == 2
    assert (
        "eval can change only env.*, eval.* and rollout.* settings, not model.hidden=64"
        in capsys.readouterr().err
    )


def test_eval_needs_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", finished=False)
    assert main(["eval", str(tmp_path / "run"), "eval.episodes=8"]) == 1
    assert "has no checkpoint yet" in capsys.readouterr().err


def test_report_shows_the_seeds_in_a_folder_and_compare_any_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    make_run(runs / "a", seed=0)
    make_run(runs / "b", seed=1)
    target = tmp_path / "page.html"
    assert main(["report", str(runs), "--to", str(target)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(target)
    assert "seeds 0, 1" in target.read_text()
    make_run(tmp_path / "ema", seed=0, more=("algo.name=ema",))
    assert main(["compare", str(runs), str(tmp_path / "ema"), "--to", str(target)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == str(target)
    assert "algo.name" in shown
    assert "3 runs in 2 groups by algo.name" in target.read_text()
    assert main(["compare", str(runs / "a")]) == 1
    assert f"`mappa-rl report {runs / 'a'}`" in capsys.readouterr().err


def test_recipes_and_keys_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    assert main(["recipes", "--keys"]) == 0
    shown = capsys.readouterr().out
    assert "demo_dsbench " in shown
    assert "algo.kl_coef=0.01\n    Weight of the KL penalty" in shown


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["train", "demo", "algo.gama=1"], 2, "Did you mean 'algo.gamma'?"),
        (["train"], 2, "name a recipe (demo, demo_dsbench, "),
        (["train", "demo", "--no-rehearsal"], 2, "--no-rehearsal needs --dry-run"),
        (["eval", "/no/such/run", "--verbose"], 2, "--verbose needs --dry-run"),
        (["train", "demo", "--parallel", "2"], 2, "--parallel 2, but there is one run"),
        (["shape", "demo", "--shapings", "mixed", "--parallel", "3", "--dry-run"], 2, "there is one run"),
        (["train", "dmeo"], 2, "neither a recipe nor a file. Did you mean 'demo'? Recipes: demo, "),
        (["report", "/no/such/run"], 1, "holds no run"),
        (["eval", "/no/such/run"], 1, "holds no run"),
    ],
)
def test_errors_are_one_line_without_a_traceback(
    command: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == status
    caught = capsys.readouterr()
    assert caught.err.startswith("mappa-rl: ")
    assert said in caught.err
    assert caught.out == ""


@pytest.mark.parametrize(
    "command",
    [
        ["train", "demo", "--wibble"],
        ["report", "x", "--seeds", "1"],
        ["train", "demo", "--seeds", "a"],
        ["shape", "demo", "--parallel", "0"],
        ["tran", "demo"],
    ],
)
def test_wrong_usage_ends_with_status_2(command: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(command)
    assert caught.value.code == 2


def test_a_bare_command_prints_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["mappa-rl"])
    assert main() == main([]) == 0
    shown = capsys.readouterr().out
    for name in ("train", "shape", "eval", "export", "generate", "replay", "report", "recipes"):
        assert f"\n    {name} " in shown


def test_an_unknown_command_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tran", "demo"])
    assert "unknown command 'tran'. Did you mean 'train'? Commands: train, " in capsys.readouterr().err


def test_the_version_is_that_of_the_environments(capsys: pytest.CaptureFixture[str]) -> None:
    import mappa_env

    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"mappa {mappa_env.__version__}\n"


def test_a_recipe_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "demo"]) == 0
    assert capsys.readouterr().out == load_config("demo").dump()


def test_starting_the_command_imports_no_torch() -> None:
    heavy = ("torch", "matplotlib", "transformers")
    code = f"import sys, mappa_rl.cli; sys.exit(any(name in sys.modules for name in {heavy}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_cli_module_is_the_console_script() -> None:
    assert cli.main is main
    assert 'mappa-rl = "mappa_rl.cli:main"' in (ROOT / "pyproject.toml").read_text()


def test_runs_of_ones_own_shapings_lie_in_the_folder_of_their_comparison(tmp_path: Path) -> None:
    folders = plan_shapings(load_config("demo"), tmp_path, [0], ["process", "examples/shaping.py:Mine"])
    assert [folder.relative_to(tmp_path).as_posix() for folder in folders] == [
        "process-seed-0",
        "shaping.py-Mine-seed-0",
    ]
    with pytest.raises(ConfigError, match="different names"):
        plan_shapings(load_config("demo"), tmp_path, [0], ["a/mine.py:Mine", "b/mine.py:Mine"])


def test_one_seed_written_in_two_ways_is_one() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="distinct"):
        seeds("1,01")
