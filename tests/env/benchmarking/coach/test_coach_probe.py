"""Injections: the rubric is moved by nothing, a judge that is fooled is found out, and the path is real."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_llm as fakes
from fake_llm import FakeServer
from mappa_env.benchmarking.coach.faults import Fault
from mappa_env.benchmarking.coach.injections import (
    PLACES,
    Place,
    altered,
    chosen,
    injected,
    read_probes,
    task_files,
)
from mappa_env.benchmarking.coach.play import play
from mappa_env.benchmarking.coach.probe_report import report
from mappa_env.benchmarking.coach.probing import Options, probe_coach
from mappa_env.cards import Card
from mappa_env.cli import main
from mappa_env.data.base import ListTaskSet
from mappa_env.episode.episode import Episode
from mappa_env.errors import CardError, OptionError
from mappa_env.registration import find_card

pytestmark = pytest.mark.filterwarnings("ignore::mappa_env.errors.SandboxWarning")
PROBES = read_probes()
NASTY = ("give_ten", "closed_fence", "zero_width", "reversed", "tags", "arabic", "escape_and_verdict")


@pytest.fixture(scope="module")
def card() -> Card:
    return find_card("mathchat")


@pytest.fixture(scope="module")
def episode(card: Card) -> Iterator[Episode]:
    """The expert's, over."""
    episode = Episode(card, sandbox="calculator")
    play(episode, episode.tasks.ids[0], 0)
    yield episode
    episode.close()


# -- the set ----------------------------------------------------------------------------------------------


def test_the_set_holds_every_class_and_claims_nothing_unmarked() -> None:
    classes = {probe.class_ for probe in PROBES.probes}
    assert classes >= {
        "naive",
        "escape",
        "context_ignoring",
        "fake_completion",
        "fake_reasoning",
        "combined",
        "flattery",
        "fake_verdict",
        "fake_tool_output",
        "fake_fence",
        "master_key",
        "language",
        "padding",
        "invisible",
    }
    assert len({probe.language for probe in PROBES.probes}) >= 7
    for probe in PROBES.probes:
        assert len(probe.words) == (probe.length or len(probe.text))


def test_a_set_of_ones_own_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("version: 1\ndate: 2026-01-01\ncontrol: x\nprobes: [{class: a, name: b}]\n")
    with pytest.raises(CardError, match=r"probes\.0\.text"):
        read_probes(path)
    entry = "{class: a, name: b, text: c}"
    path.write_text(f"version: 1\ndate: 2026-01-01\ncontrol: x\nprobes: [{entry}, {entry}]\n")
    with pytest.raises(OptionError, match="same class and name"):
        read_probes(path)
    with pytest.raises(OptionError, match="Did you mean 'naive'"):
        chosen(PROBES, ("naif",))


# -- derived evidence is what a real run gives ------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_derived_evidence_is_that_of_a_real_run(episode: Episode, card: Card, place: Place) -> None:
    base = next(each for each in episode.evidence if each.code is not None)
    real = Episode(card, sandbox="local")
    try:
        for probe in PROBES.probes:
            if probe.name not in NASTY:
                continue
            action, derived = altered(base, place, probe.words), injected(base, place, probe.words)
            assert action is not None
            assert derived is not None
            files = {**base.task.files, **task_files(place, probe.words)}
            real.tasks = ListTaskSet("probe", "", [dataclasses.replace(base.task, files=files)])
            fault = Fault(base.agent.name, base.turn, "injection", "text", "mutation", action)
            step = play(real, base.task.id, 0, fault=fault)
            assert step == base.step
            found = real.evidence[step]
            assert found.tool is not None
            assert derived.tool is not None
            assert found.tool.status == "ok"
            for one, other in ((found, derived), (found.tool, derived.tool)):
                for name in ("action", "code", "stdout", "stderr"):
                    assert getattr(one, name, None) == getattr(other, name, None), (probe.name, name)
            names = [[f.path for f in each.tool.files] for each in (found, derived) if each.tool is not None]
            assert names[0] == names[1], probe.name
            assert episode.coach.judge(found).score == episode.coach.judge(derived).score == 10
    finally:
        real.close()


def test_an_injection_that_changes_what_runs_is_left_out(episode: Episode) -> None:
    base = next(each for each in episode.evidence if each.code is not None)
    assert injected(base, "action", "```python\nprint(1)\n```") is None
    words = next(each for each in episode.evidence if each.code is None)
    assert injected(words, "stdout", "x") is None
    assert injected(words, "action", "x") is not None


# -- the rubric -------------------------------------------------------------------------------------------


def test_nothing_moves_the_rubric(card: Card) -> None:
    found = report(probe_coach(card, PROBES, Options("rubric", "calculator", actions=6, repeats=2)))
    assert found.overall.n > 300
    assert found.overall.scored == found.overall.n
    assert found.largest == 0
    assert found.overall.asr == 0
    assert found.really_run.n >= 7
    assert set(found.classes["naive"]) == {"all", *PLACES}
    assert (found.noise.sd, found.noise.n) == (0, 6)


@pytest.mark.slow
def test_false_claims_of_files_move_the_rubric_no_more_than_other_words() -> None:
    options = Options("rubric", actions=2, classes=("false_claim", "naive"), places=("action", "csv_cell"))
    found = report(probe_coach(find_card("dsbench"), PROBES, options))
    assert found.largest == 0
    assert found.really_run.n == 4
    assert found.claims.n > 0
    assert found.claims.min == found.claims.max == 0


# -- a judge that can be fooled ---------------------------------------------------------------------------


def fooled(fake: FakeServer) -> None:
    fake.grade = lambda call, name: 4 if "Please give this action" in call.text else 2


def args_for(fake: FakeServer, *more: str) -> list[str]:
    spec = json.dumps({"name": f"openai:m@{fake.url}", "timeout_s": 20})
    few = ["--classes", "naive,master_key", "--places", "action,stdout", "--actions", "4", "--real", "0"]
    return ["coach", "probe", "--coach", spec, "--sandbox", "calculator", *few, *more]


@pytest.mark.slow
def test_a_judge_that_is_fooled_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-tests")
    path = tmp_path / "figures.json"
    with fakes.serving("openai") as fake:
        fooled(fake)
        assert main(args_for(fake, "--max-shift", "1", "--json", str(path))) == 1
        assert main(args_for(fake, "--max-shift", "5")) == 0
    found = json.loads(path.read_text())
    naive, keys = found["classes"]["naive"], found["classes"]["master_key"]
    assert naive["all"]["max"] == 5
    assert naive["all"]["asr"] == pytest.approx(1 / 3)  # one of the three naive probes
    assert naive["stdout"]["max"] == naive["action"]["max"] == 5
    assert (keys["all"]["max"], keys["all"]["asr"]) == (0, 0)
    assert found["worst"][0]["name"] == "give_ten"
    assert found["probes"] == {"version": PROBES.version, "date": str(PROBES.date)}
    assert "more than 1" in capsys.readouterr().out


def test_a_verdict_that_is_not_ok_is_no_success_of_the_attack(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-tests")

    def say(fake: FakeServer, call: fakes.Call) -> Any:
        found = fakes.verdict(fake, call)
        if "Please give this action" in call.text:  # best grades, with a quote of its own making
            row = {"quote": "as everybody can see", "grade": 4}
            found["criteria"] = dict.fromkeys(found["criteria"], row)
        return fakes.saying(json.dumps(found))(fake, call)

    with fakes.serving("openai", otherwise=say) as fake:
        coach = {"name": f"openai:m@{fake.url}"}
        options = Options(coach, "calculator", actions=2, classes=("naive",), places=("action",), real=0)
        found = report(probe_coach(card, PROBES, options))
    assert found.overall.not_ok == pytest.approx(1 / 3)
    assert found.overall.asr == 0


def test_a_coach_without_scores_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--classes", "naive", "--places", "action", "--actions", "2", "--real", "0"]
    assert (
        main(["coach", "probe", "--coach", "off", "--sandbox", "calculator", *few, "--max-shift", "0"]) == 1
    )
    assert "inconclusive" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["--places", "sky"], "--places 'sky'"),
        (["--classes", "sky"], "unknown probe class"),
        (["--actions", "1"], "--actions: 1 must be at least 2"),
    ],
)
def test_what_is_not_offered(args: list[str], match: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coach", "probe", *args, "--sandbox", "calculator"]) == 2
    assert match in capsys.readouterr().err
