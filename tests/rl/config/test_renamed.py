"""An old key is never read in silence: every way to load a config names the new key in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mappa_rl.algos.ppo import PPO
from mappa_rl.cli import main
from mappa_rl.config import Config, load_config
from mappa_rl.config.foreign import FOREIGN
from mappa_rl.config.overrides import keys
from mappa_rl.config.renamed import NEW_VALUES, REMOVED, RENAMED
from mappa_rl.errors import ConfigError

OLD_RUN = Path(__file__).with_name("old_run.yaml")
KEYS = {name for name, *_ in keys(Config)}


def test_new_names_are_keys_and_old_names_are_not() -> None:
    assert set(RENAMED.values()) <= KEYS
    assert not {*RENAMED, *REMOVED} & KEYS
    with pytest.raises(ConfigError, match=r"bias\.kappa is a constant now, so remove it"):
        load_config("demo", ["bias.kappa=16"])


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_key_is_refused_with_the_new_one(old: str, tmp_path: Path) -> None:
    new = RENAMED[old]
    values = f" ({NEW_VALUES[new]})" if new in NEW_VALUES else ""
    said = re.escape(f"{old} is now {new}{values}.")
    with pytest.raises(ConfigError, match=said):
        load_config("demo", [f"{old}=1"])
    section, key = old.split(".")
    path = tmp_path / "mine.yaml"
    path.write_text(f"{section}:\n  {key}: 1\n")
    with pytest.raises(ConfigError, match=said):
        load_config(path)


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--resume", "RUN"],
        ["train", "--resume", "RUN", "run.steps=60"],
        ["eval", "RUN"],
        ["report", "RUN"],
        ["export", "RUN"],
        ["replay", "RUN"],
        ["shape", "RUN/config.yaml"],
    ],
    ids=" ".join,
)
def test_an_old_run_is_refused_in_one_sentence(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "old"
    run.mkdir()
    (run / "config.yaml").write_text(OLD_RUN.read_text())
    here = [part.replace("RUN", str(run)) for part in command]
    assert main(here) == 2
    said = capsys.readouterr().err
    assert "some keys have changed: model.head_dim is a constant now, so remove it, " in said
    assert "model.init is a constant now, so remove it, " in said
    assert "warmstart.batch is now warmstart.batch_size, " in said
    assert said.count("\n") == 1
    assert str(run / "config.yaml") in said


@pytest.mark.parametrize("foreign", sorted(FOREIGN))
def test_a_key_of_another_trainer_gets_ours_as_a_hint(foreign: str, tmp_path: Path) -> None:
    meant = FOREIGN[foreign]
    option = meant.removeprefix("algo.options.")
    assert meant in KEYS or (option != meant and option in PPO.__dataclass_fields__)
    endings = [name for key in KEYS for name in (key, key.rsplit(".", 1)[-1])]
    assert foreign not in endings
    assert foreign not in RENAMED
    key = foreign if "." in foreign else f"algo.{foreign}"
    said = re.escape(f"unknown key {key!r}. Did you mean {meant!r}?")
    with pytest.raises(ConfigError, match=said):
        load_config("demo", [f"{key}=1"])
    path = tmp_path / "mine.yaml"
    section, name = key.split(".")
    path.write_text(f"{section}:\n  {name}: 1\n")
    with pytest.raises(ConfigError, match=said):
        load_config(path)


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("rollout.n=8", "rollout.group_size"),
        ("actor_rollout_ref.rollout.n=8", "rollout.group_size"),
        ("eval.n=8", "eval.group_size"),
        ("algo.eps=0.1", "algo.clip_low"),
    ],
)
def test_the_longest_ending_of_a_foreign_key_decides(override: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"Did you mean {meant!r}?")):
        load_config("demo", [override])


def test_a_kl_coefficient_is_sent_to_its_key() -> None:
    with pytest.raises(ConfigError, match=r"set its weight with algo\.kl_coef=0\.1"):
        load_config("demo", ["algo.kl=0.1"])
    with pytest.raises(ConfigError, match=r"algo\.kl=True is not allowed: it must be 'reward'"):
        load_config("demo", ["algo.kl=true"])


@pytest.mark.parametrize(
    ("override", "meant"),
    [("lr=1", "optim.lr"), ("algo.kl_coeff=1", "algo.kl_coef"), ("steps=1", "run.steps")],
)
def test_a_key_is_guessed_in_the_section_where_people_look_for_it(override: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"Did you mean {meant!r}?")):
        load_config("demo", [override])
