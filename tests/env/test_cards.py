"""Cards: every shipped one can be read; a malformed one raises CardError and nothing else."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import envs_registry
from mappa_env.cards import Card, read_card
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.errors import CardError, OptionError
from mappa_env.plugins import TRUST
from mappa_env.registration import find_card, register_card, shipped

MATHCHAT = yaml.safe_load((envs_registry.ROOT / "mathchat" / "card.yaml").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A user's card folder, whose card.yaml the tests rewrite."""
    target = tmp_path_factory.mktemp("cards") / "mine"
    shutil.copytree(envs_registry.ROOT / "mathchat", target)
    return target


def write(folder: Path, raw: Any) -> Path:
    (folder / "card.yaml").write_text(yaml.safe_dump(raw, allow_unicode=True), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_cards_read(name: str) -> None:
    card = find_card(name)
    assert card.id.endswith("-v0")
    roles = {agent.role for agent in card.team} | {"tool"}
    if max(card.order.most_segments.values()) > 1:
        roles.add("again")
    assert {role for _, role in card.prompts} == roles
    assert set(card.truth) <= set(card.team.names)


def test_a_card_extends_a_shipped_one_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("extends: mathchat\nid: Mine-v3\ntitle: Mine\n")
    card = read_card(tmp_path)
    assert (card.id, card.folder) == ("Mine-v3", tmp_path)
    assert card.team == find_card("mathchat").team


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(CardError, match=r"the folder .*nope' does not exist"):
        register_card("nope")


def test_only_agents_with_tools_need_a_tool_prompt(tmp_path: Path) -> None:
    raw = {key: value for key, value in MATHCHAT.items() if key not in ("extends", "coach", "probe")}
    for length in ("full", "compact"):
        prompts = tmp_path / "prompts" / length
        prompts.mkdir(parents=True)
        (prompts / "solver.jinja").write_text("{{ task.prompt }}")
    without = {**raw, "id": "NoTools-v0", "coach": {}, "team": [{"name": "solver_0"}]}
    assert set(read_card(write(tmp_path, without)).prompts) == {("full", "solver"), ("compact", "solver")}
    env_id = register_card(tmp_path)
    env = gym.make(env_id, coach="off", sandbox="null")
    env.reset(seed=0)
    assert env.step("```python\nprint(1)\n```")[2]
    env.close()
    assert read_card(tmp_path).lengths == ("full", "compact")
    with pytest.raises(OptionError, match=r"prompts='brief' must be one of full, compact"):
        gym.make(env_id, coach="off", sandbox="null", prompts="brief")
    with_tools = {**without, "team": [{"name": "solver_0", "tools": ["python"]}]}
    with pytest.raises(CardError, match=r"tool\.jinja"):
        read_card(write(tmp_path, with_tools))


def test_a_length_other_than_full_is_whole_or_absent(tmp_path: Path) -> None:
    team = [{"name": "planner_0"}, {"name": "solver_0"}]
    write(tmp_path, {"extends": "mathchat", "id": "Mine-v0", "team": team, "coach": {}, "scripted": None})
    for name in ("full", "compact"):
        (tmp_path / "prompts" / name).mkdir(parents=True)
    (tmp_path / "prompts" / "full" / "planner.jinja").write_text("{{ task.prompt }}")
    with pytest.raises(CardError, match=r"prompts/compact/planner\.jinja"):  # begun, not whole
        read_card(tmp_path)
    (tmp_path / "prompts" / "compact").rmdir()
    assert read_card(tmp_path).lengths == ("full",)  # the extended card has no planner


def test_own_tasks_lie_beside_the_card(folder: Path) -> None:
    card = read_card(write(folder, {**MATHCHAT, "tasks": {"loader": "jsonl"}}))
    assert card.loader_options == {"folder": str(folder / "tasks")}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "mine"}, "must look like 'MyTask-v0'"),
        ({"titel": "x"}, "Did you mean 'title'"),
        ({"team": []}, "at least one agent"),
        ({"team": [{"name": "Solver"}]}, r"\[a-z\]\+_\[0-9\]\+"),
        ({"team": [{"name": "solver_0", "max_turns": 0}]}, "integer >= 1"),
        ({"team": [{"name": "solver_0", "tools": ["bash"]}]}, "'python'"),
        ({"team": [{"name": "solver_0"}, {"name": "solver_0"}]}, "distinct names"),
        ({"team": [{"name": "critic_0"}]}, "critic.jinja"),
        ({"coach": {"truth": ["nobody_0"]}}, "not in the team"),
        ({"coach": {"rubric": "../../secrets"}}, "is not in"),
        ({"probe": "../mine.py:Probe"}, r"the file .* does not exist"),
        ({"limits": {"wall_s": -1}}, "must be a positive"),
        ({"limits": {"wall": 3}}, "Did you mean 'wall_s'"),
        ({"limits": {"memory_mb": 1.5}}, "positive integer"),
        ({"limits": {"wall_s": float("inf")}}, "positive number"),
        ({"scripted": "mathchatt"}, r"scripted='mathchatt' is not a script; .* Did you mean 'mathchat'\?"),
        ({"scripted": "unlike"}, r"or none\.$"),
        ({"tasks": None}, "'tasks' must be a mapping"),
        ({"extends": "mine"}, "circular"),
        ({"extends": "nowhere"}, "does not exist"),
        ({"extends": "x\0y"}, "'extends' must name a card"),
        ({"extends": "x" * 5000}, "'extends' must name a card"),
        ({"tools": {"search": {"use": "search", "options": {"folder": "x" * 5000}}}}, "must name a folder"),
        ({"tasks": {"loader": "jsonl", "options": {"folder": "/etc"}}}, "leads to /etc, outside of the card"),
        ({"tasks": {"loader": "jsonl", "options": {"folder": "../.."}}}, "outside of the card"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(CardError, match=words):
        read_card(write(folder, {**MATHCHAT, "coach": {}, **change}))


@pytest.mark.parametrize(
    "text", [b"", b"- a", b"a: [", b"\xff\xfe", b"id: 2020-99-99", b"a: " + b"9" * 5000, b"[" * 5000]
)
def test_what_is_not_a_card_at_all(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "card.yaml").write_bytes(text)
    with pytest.raises(CardError):
        read_card(tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(raw: Any) -> list[tuple[Any, ...]]:
    """Every path in a nested value."""
    items = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [()] + [(key, *rest) for key, value in items for rest in paths(value)]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), value=VALUES)
def test_random_values_give_a_card_or_a_card_error(folder: Path, data: st.DataObject, value: Any) -> None:
    raw = copy.deepcopy(MATHCHAT)
    path = data.draw(st.sampled_from([p for p in paths(raw) if p]))
    inner: Any = raw
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    write(folder, raw)
    with contextlib.suppress(CardError):
        assert isinstance(read_card(folder), Card)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=VALUES)
def test_any_yaml_at_all_gives_a_card_error(folder: Path, value: Any) -> None:
    with pytest.raises(CardError):
        read_card(write(folder, value))


def test_no_file_of_a_card_leads_out_of_it_unless_the_user_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, card = tmp_path / "secret", tmp_path / "card"
    secret.write_text("the user's own")
    shutil.copytree(envs_registry.ROOT / "mathchat", card)
    for name in ("prompts/full/solver.jinja", "rubric.yaml", "coach.jinja"):
        kept = (card / name).read_bytes()
        (card / name).unlink()
        (card / name).symlink_to(secret)
        with pytest.raises(CardError, match=f"leads to {secret}, outside of the card"):
            Prompts(read_card(card))
        (card / name).unlink()
        (card / name).write_bytes(kept)
    (card / "tasks").mkdir()
    (card / "tasks" / "train.jsonl").symlink_to(secret)
    write(card, {**MATHCHAT, "tasks": {"loader": "jsonl"}})
    with pytest.raises(CardError, match="outside of the card"):
        read_card(card)
    monkeypatch.setenv(TRUST, str(card))
    assert read_card(card).loader == "jsonl"


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret", "x\0y", "x" * 5000, "."])
def test_a_template_lies_beside_its_questions(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("the user's own")
    card = tmp_path / "card"
    shutil.copytree(envs_registry.ROOT / "mathchat", card)
    (card / "coach.yaml").write_text(
        (card / "coach.yaml").read_text().replace("coach.jinja", json.dumps(name))
    )
    with pytest.raises(CardError, match="template needs the file"):
        Prompts(read_card(card))
