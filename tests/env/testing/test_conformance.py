"""Every id and a user's own card pass every suite with warnings as errors; broken ones fail."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pettingzoo
import pytest

import envs_registry
import mappa_env
from mappa_env.data.adding import add
from mappa_env.envs.aec import raw_env
from mappa_env.envs.team_env import TeamEnv
from mappa_env.errors import CardError, DataMissingError, OptionError
from mappa_env.testing import SUITES, card_files, check_environment, conformance, suites
from mappa_env.testing.conformance import Case

CONTEST = [
    {"id": f"{i}", "prompt": f"How much is {i} plus {i + 1}?", "answer": str(2 * i + 1)} for i in range(1, 9)
]


@pytest.fixture
def contest_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(CONTEST))
    for name in ("aime", "amc", "math"):
        add(name, path)


@pytest.fixture
def own_card(tmp_path: Path) -> Path:
    """A team of one on its own tasks, without a scripted team."""
    folder = tmp_path / "counting"
    shutil.copytree(envs_registry.ROOT / "mathchat" / "prompts", folder / "prompts")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CONTEST))
    (folder / "card.yaml").write_text(
        "id: Counting-v2\ntitle: Counting\nteam:\n  - {name: coder_0, max_turns: 3, tools: [python]}\n"
        "tasks: {loader: jsonl}\ngrader: {name: math}\n"
    )
    return folder


@pytest.mark.slow
def test_mathchat_conforms_with_real_code_and_coach() -> None:
    report = check_environment("mappa/MathChat-v0")
    report.raise_on_failure()
    assert len(report.results) == len(SUITES) == 17


@pytest.mark.slow
def test_mathchat_conforms_with_other_options() -> None:
    options: dict[str, Any] = {"prompts": "compact", "coach_feedback": "agents", "shaping": "outcome"}
    check_environment("MathChat-v0", sandbox="null", **options).raise_on_failure()


@pytest.mark.slow
def test_dsbench_conforms() -> None:
    check_environment("mappa/DSBench-v0", sandbox="null").raise_on_failure()


@pytest.mark.slow
def test_dsbench_conforms_with_real_code_and_coach() -> None:
    check_environment("mappa/DSBench-v0").raise_on_failure()


CHECKERS = (
    card_files.prompts_of_every_length,
    conformance.gymnasium_check_env,
    conformance.gymnasium_single_agent,
    conformance.pettingzoo_api_test,
    conformance.pettingzoo_parallel_api_test,
    conformance.pettingzoo_seed_test,
    conformance.interfaces_agree,
)
"""The suites that differ most between orders; the others take longer."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "MathSingle",
        "MathDebate",
        "MathMixture",
        "MathManager",
        "MathRefine",
        "DSBenchSingle",
        "DSBenchManager",
    ],
)
def test_every_topology_passes_the_checkers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(CHECKERS) < set(SUITES)
    monkeypatch.setattr(suites, "SUITES", CHECKERS)
    report = check_environment(f"mappa/{name}-v0", sandbox="null")
    report.raise_on_failure()
    assert len(report.results) == len(CHECKERS)


@pytest.mark.usefixtures("contest_data")
@pytest.mark.parametrize("env_id", ["mappa/AIME-v0", "mappa/AMC-v0", "mappa/MATH-v0"])
def test_contests_conform_once_their_texts_are_added(env_id: str) -> None:
    check_environment(env_id, sandbox="null").raise_on_failure()


@pytest.mark.slow
def test_a_card_of_ones_own_conforms(own_card: Path) -> None:
    report = check_environment(own_card, coach="off")
    report.raise_on_failure()
    assert report.env_id == "mappa/Counting-v2"
    assert mappa_env.register_card(own_card) == "mappa/Counting-v2"  # again, without effect
    env = gym.make("mappa/Counting-v2", coach="off")
    assert "plus" in env.reset(seed=0)[0]["prompt"]
    env.close()


def test_an_id_belongs_to_one_card(own_card: Path, tmp_path: Path) -> None:
    mappa_env.register_card(own_card)
    twin = shutil.copytree(own_card, tmp_path / "twin")
    with pytest.raises(OptionError, match="another id, or the next version"):
        mappa_env.register_card(twin)


def test_what_is_no_environment_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path))
    with pytest.raises(OptionError, match="Did you mean 'mappa/MathChat-v0'"):
        check_environment("mappa/MatChat-v0")
    with pytest.raises(CardError, match=r"card\.yaml does not exist"):
        check_environment(tmp_path)
    with pytest.raises(DataMissingError, match="mappa-env data add aime"):
        check_environment("mappa/AIME-v0")


# -- the suites can fail ----------------------------------------------------------------------------------


CASE = Case("mappa/MathChat-v0", "mathchat", {"sandbox": "null", "coach": "off"})


def test_reused_infos_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, shared = TeamEnv.info, {}

    def info(self: TeamEnv, *args: Any, **kwargs: Any) -> dict[str, Any]:
        shared.update(whole(self, *args, **kwargs))
        return shared

    monkeypatch.setattr(TeamEnv, "info", info)
    with pytest.raises(AssertionError, match="share an object"):
        conformance.gymnasium_check_env(CASE)


def test_clocks_in_infos_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, clock = TeamEnv.info, itertools.count()

    def info(self: TeamEnv, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**whole(self, *args, **kwargs), "clock": next(clock)}

    monkeypatch.setattr(TeamEnv, "info", info)
    for suite in (conformance.gymnasium_check_env, conformance.pettingzoo_seed_test, conformance.sync_vector):
        with pytest.raises(AssertionError):
            suite(CASE)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_observations_outside_of_the_space_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TeamEnv.observation

    def observation(self: TeamEnv, agent: str | None = None) -> dict[str, Any]:
        return {**whole(self, agent), "turn": 7}

    monkeypatch.setattr(TeamEnv, "observation", observation)
    for suite in (conformance.pettingzoo_api_test, conformance.any_text_is_legal):
        with pytest.raises(AssertionError):
            suite(CASE)


def test_another_draw_through_one_interface_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = raw_env.reset

    def reset(self: raw_env, seed: int | None = None, options: Any = None) -> None:
        whole(self, seed if seed is None else seed + 1, options)

    monkeypatch.setattr(raw_env, "reset", reset)
    with pytest.raises(AssertionError, match="gymnasium and pettingzoo differ"):
        conformance.interfaces_agree(CASE)


@pytest.mark.slow
def test_a_report_lists_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TeamEnv.act

    def act(self: TeamEnv, action: str) -> Any:
        return dataclasses.replace(whole(self, action), reward=85.0)

    monkeypatch.setattr(TeamEnv, "act", act)
    report = check_environment("mappa/MathChat-v0", sandbox="null", coach="off")
    assert not report.ok
    with pytest.raises(AssertionError, match=r"any text is legal: .* reward 85.0 is outside of 0-10"):
        report.raise_on_failure()


# -- registries -------------------------------------------------------------------------------------------


def test_all_ids_are_registered_on_import() -> None:
    names = ("MathChat", "AIME", "AMC", "MATH", "DSBench", "MathDebate", "MathManager", "DSBenchManager")
    ids = {f"mappa/{name}-v0" for name in names}
    assert ids <= set(gym.registry)
    assert ids <= set(pettingzoo.aec_registry)
    assert ids <= set(pettingzoo.parallel_registry)
    assert gym.spec("mappa/MathChat-v0").nondeterministic is False


def test_environments_know_their_name_and_refuse_to_go_parallel() -> None:
    env: Any = pettingzoo.make("aec", "mappa/MathChat-v0", sandbox="null", coach="off")
    assert str(env.unwrapped) == env.metadata["name"] == "MathChat-v0"
    assert env.metadata["is_parallelizable"] is False
    with pytest.raises(AttributeError, match="before reset"):
        env.agent_selection  # noqa: B018
    env.reset(seed=0)
    env.step("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.close()
        env.close()


def test_agents_have_spaces_of_their_own() -> None:
    env: Any = pettingzoo.make("aec", "mappa/MathChat-v0", sandbox="null", coach="off")
    spaces = [env.action_space(agent) for agent in env.possible_agents]
    assert spaces[0] == spaces[1]
    assert spaces[0] is not spaces[1]
    env.close()


def test_vectors_refuse_what_gymnasium_cannot_do() -> None:
    with pytest.raises(gym.error.Error, match="vector_entry_point"):
        gym.make_vec("mappa/MathChat-v0", num_envs=1, wrappers=[lambda env: env])
