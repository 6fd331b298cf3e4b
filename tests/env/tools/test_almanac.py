"""The card Almanac: every answer is in its documents and only there, and the truth stays hidden."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mappa_env.coach.blame.attribution import attribute
from mappa_env.data import load_tasks
from mappa_env.data.leaks import overlap
from mappa_env.episode.episode import Episode
from mappa_env.errors import DataError, OptionError
from mappa_env.grading.text import TextGrader, plain
from mappa_env.registration import find_card
from mappa_env.scripted import make_team
from mappa_env.testing import check_environment
from mappa_env.tools.corpus import read_passages
from paths import REGISTRY

CARD = find_card("almanac")
FOLDER = REGISTRY / "almanac"
FACTS = yaml.safe_load((FOLDER / "facts.yaml").read_text())
WORD = re.compile(r"[^\W_]+")
PASSAGES = {each.document: each for each in read_passages(FOLDER / "corpus", 200)}


def words(text: str) -> str:
    return f" {' '.join(WORD.findall(text.casefold().replace(chr(39), '')))} "


def play(kind: str = "expert", seeds: range = range(20), **options: Any) -> list[Episode]:
    team, done = make_team("almanac", kind), []
    for seed in seeds:
        episode = Episode(CARD, sandbox="null", **options)
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
        done.append(episode)
    return done


def test_every_fact_stands_in_the_document_of_its_subject() -> None:
    assert set(FACTS["documents"]) == set(PASSAGES)
    for document, row in FACTS["documents"].items():
        text = words(f"{PASSAGES[document].title} {PASSAGES[document].text}")
        for key, value in row.items():
            assert words(str(value)) in text or f" {plain(str(value))} " in text, (document, key)


def test_the_questions_are_distinct_and_the_splits_share_none() -> None:
    train, held_out = (load_tasks("relations", split, CARD.loader_options) for split in ("train", "eval"))
    tasks = {
        name: [found.get(i) for i in found.ids] for name, found in (("train", train), ("eval", held_out))
    }
    assert (len(tasks["train"]), len(tasks["eval"])) == (350, 126)
    assert overlap(tasks["train"], tasks["eval"]) == []
    assert len({task.prompt for each in tasks.values() for task in each}) == 476
    hops = Counter(task.topic for task in tasks["eval"])
    assert min(hops.values()) >= 28
    assert {len(task.truth["documents"]) for task in tasks["eval"]} == {1, 2, 3}


def test_the_question_does_not_hold_the_answer() -> None:
    tasks = load_tasks("relations", "train", CARD.loader_options)
    for task in map(tasks.get, tasks.ids):
        assert f" {plain(str(task.truth['answer']))} " not in words(task.prompt), task.id


def test_the_expert_finds_every_answer_by_searching() -> None:
    for episode in play():
        assert episode.outcome is not None
        assert episode.outcome.success, episode.task.id
        assert [action.verdict.score for action in episode.actions] == [10.0] * len(episode.actions)
        calls = [call for action in episode.actions for call in action.calls]
        assert {call.status for call in calls} == {"ok"}
        assert len(calls) == len(episode.task.truth["documents"])


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        ("scout_0", "no_search"),
        ("scout_0", "repeats_itself"),
        ("scout_0", "stops_early"),
        ("scout_0", "wrong_tool"),
        ("scribe_0", "no_box"),
        ("scribe_0", "miscopied"),
    ],
)
def test_a_fault_costs_its_agent_and_no_other(agent: str, fault: str) -> None:
    task_id = next(i for i in load_tasks("relations", "train", CARD.loader_options).ids if i.count("/") == 3)
    episode, team = Episode(CARD, sandbox="null"), make_team("almanac", "single", agent=agent, fault=fault)
    episode.reset(seed=0, task_id=task_id)
    team.reset(episode.task, 0)
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    scores = {
        name: min(a.verdict.score or 0.0 for a in episode.actions if a.agent == name) for name in team.planned
    }
    assert scores.pop(agent) <= 3
    assert min(scores.values()) >= 6
    assert episode.outcome is not None
    assert not episode.outcome.success
    blame = attribute(
        dataclasses.replace(episode.trajectory, task=dataclasses.replace(episode.task, truth={})), CARD
    )
    assert (blame.decided, sum(blame.fractions)) == ("tracing", 1)
    assert {a.agent for a, part in zip(episode.actions, blame.fractions, strict=True) if part} == {agent}


def test_who_ends_without_a_report_is_to_blame_not_who_waits_for_it() -> None:
    episode = Episode(CARD, sandbox="null")
    episode.reset(seed=0)
    for _ in range(CARD.team["scout_0"].max_turns):
        episode.act("I look.\n```search\nIlvane river\n```")
    episode.act(r"I have no report. answer: \boxed{Ilvane}")
    blame = attribute(episode.trajectory, CARD)
    assert blame.culprit == len(episode.actions) - 2
    assert blame.walk[-1].reason == "ended the segment without a report"


def test_no_prompt_and_no_call_holds_the_truth_before_it_is_found() -> None:
    for episode in play(seeds=range(15)):
        first = episode.actions[0].messages[0]["content"]
        assert f" {plain(episode.task.truth['answer'])} " not in words(first)
        assert not any("facts.yaml" in str(action) for action in episode.actions)


def test_a_failure_is_traced_and_backward_shaping_works() -> None:
    for episode in play("faulty", range(20), shaping="backward"):
        assert len(episode.rewards) == len(episode.actions)


@pytest.fixture(scope="module")
def played() -> Episode:
    return play(seeds=range(1))[0]


@given(st.text())
def test_any_answer_is_graded(played: Episode, text: str) -> None:
    episode, closing = played, played.actions[-1]
    for said in (text, f"\\boxed{{{text}}}"):
        outcome = TextGrader().grade(episode.task, [dataclasses.replace(closing, action=said)], None)
        assert outcome.success == (plain(text) == plain(episode.task.truth["answer"]) and said != text)


@pytest.mark.parametrize(
    "said", ["a blue thistle", "Blue Thistle.", "\\text{blue thistle}", "  THE blue—thistle"]
)
def test_the_same_answer_in_other_words(said: str) -> None:
    assert plain(said) == "blue thistle"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-5", "5"),
        ("−5", "5"),
        ("3.5", "3 5"),
        (".5", "5"),
        ("1/2", "1 2"),
        ("½", "1 2"),
        ("5 %", "5"),
        ("C++", "C"),
        ("C#", "C"),
        ("A+", "A-"),
        ("AB+", "AB-"),
        ("कि", "का"),
        ("पानी", "पाना"),
        ("がか", "かか"),
        ("ที่", "ทา"),
    ],
)
def test_other_answers_are_no_other_words_for_one(one: str, other: str) -> None:
    assert plain(one) != plain(other)
    assert plain(f"The {one}.") == plain(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("-5", "(−5)"), ("1,000", "1000"), ("Zoë", "zoe"), ("Ёлка", "елка"), ("5 kg", "5kg"), ("0.5", ".5")],
)
def test_spellings_of_one_answer(one: str, other: str) -> None:
    assert plain(one) == plain(other)


@pytest.mark.slow
def test_the_card_conforms() -> None:
    check_environment("almanac", sandbox="null").raise_on_failure()


def test_wrong_files_and_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="hops=9"):
        load_tasks("relations", "train", {**CARD.loader_options, "hops": 9})
    with pytest.raises(OptionError, match="these questions are generated"):
        load_tasks("relations", "mine.jsonl", CARD.loader_options)
    path = tmp_path / "facts.yaml"
    for text, said in [
        ("[]", "must hold the mappings"),
        ("relations: {a: {question: no place}}\ndocuments: {}", "relations.a needs 'question'"),
        ("relations: {}\ndocuments: {a.md: {name: A, b: 1}}", "has 'b', which is not under 'relations'"),
        ("relations: {}\ndocuments: {a.md: {}}", "must be a mapping with 'name'"),
        ("relations: {}\ndocuments: {a/x.md: {name: A}, b/x.md: {name: B}}", "different file names"),
        ("relations: {}\ndocuments: {a.md: {name: A}, b.md: {name: A}}", "different values of 'name'"),
        ("relations: {on: {question: 'q {}'}}\ndocuments: {}", "the name True is not a text"),
        ("relations: {r: {question: 'q {}'}}\ndocuments: {a: {name: A, r: null}}", "a text or a number"),
        ("relations: {r: {question: 'q {}'}}\ndocuments: {a: {name: A, r: '<'}}", "a text or a number"),
        ("relations: {}\ndocuments: {}", "has no tasks"),
        ("a: [", "not valid YAML"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=re.escape(said)):
            load_tasks("relations", "train", {"facts": str(path)})
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
