"""Every example is short and does what it says, chosen as its first line documents it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import envs_registry
from mappa_env import register_card
from mappa_env.cards import read_card
from mappa_env.coach import COACHES
from mappa_env.coach.rubric.checks import CHECKS
from mappa_env.commands.new import create
from mappa_env.data import LOADERS
from mappa_env.episode.episode import Episode
from mappa_env.errors import CardError
from mappa_env.grading import GRADERS
from mappa_env.plugins import TRUST, options_of
from mappa_env.probes import PROBES
from mappa_env.registration import find_card
from mappa_env.sandbox import SANDBOXES
from mappa_env.scripted import SCRIPTS, make_team
from mappa_env.shaping import SHAPINGS
from mappa_env.testing.card_files import prompts_of_every_length
from mappa_env.testing.conformance import Case
from mappa_env.tools import TOOLS
from mappa_rl.algos import ALGORITHMS
from mappa_rl.algos.actions import Actions
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import load_config
from mappa_rl.learner.losses import LOSSES, Mass, Objective, Tokens
from mappa_rl.training.preflight.algorithm import check_advantages
from mappa_rl.training.preflight.loss import check_loss
from paths import ROOT
from tool_cards import fence, tool_card

EXAMPLES = ROOT / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in {".py", ".yaml"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_is_short_and_listed(path: Path) -> None:
    listed = str(path.relative_to(EXAMPLES))
    most = 80 if listed.startswith("unit_tests/") else 30
    assert len(path.read_text(encoding="utf-8").splitlines()) <= most
    assert listed in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_the_tool_converts_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool.py").write_text((EXAMPLES / "tool.py").read_text())
    monkeypatch.setenv(TRUST, str(tmp_path))
    tools = {"convert": {"use": "tool.py:Convert", "options": {"digits": 2}}}
    episode = Episode(tool_card(tmp_path, tools, ["convert"]), sandbox="null")
    episode.reset(seed=0)
    asked = [{"value": 2, "unit": "km", "to": "mile"}, {"value": 2, "unit": "km", "to": "inch"}]
    record = episode.act("\n".join(fence("convert", json.dumps(arguments)) for arguments in asked))
    assert [(call.status, call.text) for call in record.calls] == [
        ("ok", "1.24 mile"),
        ("error", "ValueError: 'inch' is not one of m, km, mile, foot"),
    ]


def test_a_tool_in_a_copied_card_needs_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my_team"
    create(folder, envs_registry.ROOT / "math_debate")
    monkeypatch.setenv(TRUST, str(folder))
    section = (ROOT / "docs" / "extending.md").read_text().partition("\n## Tool\n")[2].partition("\n## ")[0]
    rows, around, role = re.findall(r"```(?:yaml|jinja)\n(.*?)```", section, re.DOTALL)
    (folder / "tool.py").write_text((EXAMPLES / "tool.py").read_text())
    keys, more = yaml.safe_load((folder / "card.yaml").read_text()), yaml.safe_load(rows)
    team = [{agent["name"]: agent for agent in part["team"]} for part in (keys, more)]
    keys |= {"tools": more["tools"], "team": list((team[0] | team[1]).values())}
    (folder / "card.yaml").write_text(yaml.safe_dump(keys))
    case = Case(register_card(folder), str(folder), {"coach": "off", "sandbox": "null"})
    with pytest.raises(CardError, match=r"tool\.jinja line 1: UndefinedError: 'None' has no attribute"):
        prompts_of_every_length(case)
    for prompts in (folder / "prompts").iterdir():
        tool = (prompts / "tool.jinja").read_text()
        (prompts / "tool.jinja").write_text(around.replace("...what it says about code...", tool))
        (prompts / "judge.jinja").write_text((prompts / "judge.jinja").read_text() + role)
    prompts_of_every_length(case)
    env = case.make(prompts="brief")
    env.reset(seed=0)
    for text in ("answer: 1", "answer: 1"):
        _, _, _, _, info = env.step(text)
    assert "\nconvert: Converts a length" in info["messages"][-1]["content"]
    assert "Arguments: value, unit, to" in info["messages"][-1]["content"]
    asked = {"value": 2, "unit": "km", "to": "mile"}
    _, _, _, _, info = env.step(fence("convert", json.dumps(asked)))
    assert info["messages"][-1]["content"] == "convert (ok): 1.24 mile"
    env.close()


def played(**options: Any) -> Episode:
    """An episode of the faulty scripted team, which does not always succeed."""
    episode = Episode(find_card("mathchat"), **{"sandbox": "calculator", **options})
    team = make_team("mathchat", "faulty")
    episode.reset(seed=11)
    team.reset(episode.task, seed=1)
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    return episode


def test_the_coach_prefers_brief_actions() -> None:
    episode = played(coach={"name": f"{EXAMPLES}/coach.py:Brief", "limit": 40})
    expected = [10.0 if len(action.action) <= 40 else 2.0 for action in episode.actions]
    assert [reward for reward, _ in episode.rewards] == expected
    assert set(expected) == {10.0, 2.0}


def test_the_shaping_gives_the_closing_action_the_outcome() -> None:
    plain, shaped = played(), played(shaping={"name": f"{EXAMPLES}/shaping.py:Closer", "weight": 0.5})
    assert shaped.rewards[:-1] == plain.rewards[:-1]
    assert shaped.outcome is not None
    assert shaped.rewards[-1] == (0.5 * 10 * shaped.outcome.score, True)


def test_the_sandbox_logs_the_code_that_it_runs(tmp_path: Path) -> None:
    log = tmp_path / "code.log"
    episode = played(sandbox={"name": f"{EXAMPLES}/sandbox.py:Logged", "path": str(log)})
    ran = [action for action in episode.actions if action.tool is not None]
    assert ran
    assert log.read_text() == "".join(f"# {each.tool.status}\n{each.code}\n" for each in ran if each.tool)


def test_the_algorithm_subtracts_the_median_and_keeps_what_is_far() -> None:
    overrides = [f"algo.name={EXAMPLES}/algorithm.py:MedianBaseline", "algo.options.keep=0.5"]
    algorithm: Any = algorithm_of(load_config("demo", overrides))
    check_advantages(algorithm)
    returns, none = np.array([0.0, 1.0, 2.0, 6.0]), np.zeros(4, np.int64)
    actions = Actions(returns, returns, np.ones(4), none, none, none, ["a_0"] * 4)
    assert algorithm.advantages(actions) == pytest.approx(np.array([-1.5, 0, 0, 4.5]) / 1.75, abs=1e-5)


def test_the_loss_fades_where_the_ratio_leaves_one() -> None:
    config = load_config("demo", [f"algo.loss={EXAMPLES}/loss.py:SoftClip", "algo.loss_options.width=0.3"])
    check_loss(config)
    new = torch.tensor([0.0, 0.5, 1.0], requires_grad=True)
    tokens = Tokens(new, torch.zeros(3), torch.ones(3), torch.arange(3))
    ones, none = torch.ones(3), torch.zeros(3)
    found = Objective(config.algo)(tokens, Mass(ones, ones, 3.0), none, none)
    found.value.backward()
    assert new.grad is not None
    first, second, third = (-3 * new.grad).tolist()
    assert first == pytest.approx(1)
    assert 1 > second > third > 0
    assert found.sums["clip_fraction"].item() == 2


def test_the_card_brings_its_own_tasks_grader_and_check(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = EXAMPLES / "parity"
    with pytest.raises(CardError, match=TRUST):
        read_card(folder)
    monkeypatch.setenv(TRUST, str(folder))
    card = read_card(folder)
    episode = Episode(card, shaping="outcome", sandbox="null")
    assert len(episode.tasks.ids) == 64
    assert not set(episode.tasks.ids) & set(Episode(card, tasks="eval", sandbox="null").tasks.ids)
    episode.reset(seed=0)
    answer = episode.task.truth["answer"]
    scores = [episode.act(text).verdict.score for text in ("even or odd", f"It is\n{answer}")]
    assert scores == [3.0, 10.0]
    assert episode.rewards == [(10.0, True), (10.0, True)]
    episode.reset(seed=0)
    for text in (answer, f"{answer}, I think"):
        episode.act(text)
    assert episode.rewards == [(0.0, True), (0.0, True)]


@pytest.mark.slow
def test_the_training_loop_learns_to_act_as_the_expert() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / "training_loop.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"probability ([0-9.]+)", ran.stdout)
    assert found is not None
    assert float(found[1]) > 0.8


def test_the_page_shows_the_files_of_the_unit_tests_as_they_are() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = page.partition("\n## A task of another kind\n")[2].partition("\n## ")[0]
    files = [
        path for path in (EXAMPLES / "unit_tests").rglob("*") if path.suffix in {".py", ".yaml", ".jsonl"}
    ]
    texts = [path.read_text(encoding="utf-8") for path in files if path.is_file()]
    blocks = re.findall(r"```(?:python|yaml|json)\n(.*?)```", section, re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        assert any(block.strip() in text for text in texts), block


def test_the_documented_options_are_those_there_are() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    graded = (SHAPINGS, GRADERS, PROBES, LOADERS, CHECKS, SCRIPTS, ALGORITHMS, LOSSES)
    for kind in (COACHES, SANDBOXES, TOOLS, *graded):
        assert f"`{kind.group}`" in page
    for name in LOADERS.builtin:
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{name}`" in line)
        assert all(f"`{option}`" in row for option in options_of(LOADERS.find(name), 1)[0])
    for name in CHECKS.builtin:
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{name}`" in line)
        for option, parameter in inspect.signature(CHECKS.find(name)).parameters.items():
            assert option == "case" or f"`{option}` {parameter.default}" in row
    for field in dataclasses.fields(Actions):
        assert f"| `{field.name}`" in page
