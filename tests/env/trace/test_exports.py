"""Exports are what their formats' own readers take, with everything that the formats have a place for."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import atif
import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.registration import find_card
from mappa_env.scripted import make_team
from mappa_env.trace import Learned, Recorded, TraceFile
from mappa_env.trace.appending import Appender
from mappa_env.trace.exports import FORMATS, inspect_log
from mappa_env.trace.source import described
from paths import ROOT

INSPECT = Path(os.environ.get("MAPPA_INSPECT_PYTHON", ROOT / ".venv-inspect" / "bin" / "python"))
"""A Python that has inspect_ai, whose pins exclude those of the learner."""
HOSTILE = "<script>alert(1)</script>\x1b[31m\ud800\u202e"


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """A team that fails, as a learner saw it, and one whose texts are hostile and that has no score."""
    path = tmp_path_factory.mktemp("trace") / "t.jsonl.gz"
    writer = Appender(path, card=described(find_card("mathchat")), about={"phase": "train", "step": 3})
    for coach in ("rubric", "off"):
        env = gym.make("mappa/MathChat-v0", sandbox="calculator", coach=coach)
        env.reset(seed=11)
        episode = team_env(env).episode
        team = make_team("mathchat", "faulty")
        team.reset(episode.task, seed=1)
        while not episode.over:
            text = team.act(episode.agent, episode.turn, episode.actions)
            env.step(f"<think>{HOSTILE}</think>{text}" if coach == "off" else text)
        key = writer.append(episode.trajectory)
        if coach == "rubric":
            made = [
                Learned(step, "lead", 2, 5.0, True, 4.5, -0.5, "eos", (1, 2, 3), (4, 5), (-0.1, -0.2))
                for step in range(len(episode.actions))
            ]
            writer.learned(key, made)
        env.close()
    writer.close()
    return list(TraceFile(path))


def test_atif_is_what_its_package_takes(episodes: list[Recorded], tmp_path: Path) -> None:
    assert FORMATS["atif"].write(tmp_path / "out", episodes, "0.1") == 2
    files = sorted((tmp_path / "out").iterdir())
    first, second = (atif.Trajectory.model_validate_json(file.read_text("utf-8")) for file in files)
    assert first.schema_version == "ATIF-v1.7"
    assert len(first.steps) == 1 + 4
    agents = {each.agent.name: each for each in first.subagent_trajectories or ()}
    assert list(agents) == ["solver_0", "coder_0", "verifier_0"]
    acted = [step for step in agents["coder_0"].steps if step.source == "agent"]
    assert acted[0].tool_calls is not None
    assert acted[0].tool_calls[0].arguments["code"] == episodes[0].trajectory.actions[1].code
    assert acted[0].observation is not None
    assert acted[0].observation.results[0].content == "1\n"
    assert acted[0].metrics is not None
    assert acted[0].metrics.completion_token_ids == [4, 5]
    assert acted[0].extra is not None
    extra = acted[0].extra["mappa"]
    assert (extra["reward"], extra["learned"]["advantage"]) == (8.0, -0.5)
    assert extra["verdict"]["criteria"][0]["name"]
    assert first.extra is not None
    assert first.extra["mappa"]["card"]["order"] == [
        {"act": {"agent": agent}} for agent in ("solver_0", "coder_0", "verifier_0")
    ]
    hostile = (second.subagent_trajectories or [])[0].steps[-1]
    assert hostile.reasoning_content is not None
    assert "<script>" in hostile.reasoning_content


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """An episode in which an agent calls a tool other than Python."""
    path = tmp_path_factory.mktemp("calls") / "t.jsonl"
    env = gym.make("mappa/Almanac-v0", record=str(path))
    env.reset(seed=1)
    episode = team_env(env).episode
    team = make_team("almanac", "expert")
    team.reset(episode.task, seed=1)
    while not episode.over:
        env.step(team.act(episode.agent, episode.turn, episode.actions))
    env.close()
    return next(iter(TraceFile(path)))


def test_calls_of_tools_are_calls_in_every_format(searching: Recorded, tmp_path: Path) -> None:
    call = searching.trajectory.actions[0].calls[0]
    FORMATS["atif"].write(tmp_path / "out", [searching], "0.1")
    written = (tmp_path / "out" / "episode-000000.json").read_text("utf-8")
    scout, scribe = atif.Trajectory.model_validate_json(written).subagent_trajectories or ()
    step = next(each for each in scout.steps if each.tool_calls)
    assert step.tool_calls is not None
    assert step.observation is not None
    assert (step.tool_calls[0].function_name, step.tool_calls[0].arguments) == ("search", call.arguments)
    assert step.observation.results[0].source_call_id == step.tool_calls[0].tool_call_id
    assert step.observation.results[0].content == call.text
    assert [tool["function"]["name"] for tool in scout.agent.tool_definitions or ()] == ["search"]
    assert not scribe.agent.tool_definitions  # the card lets it call nothing
    FORMATS["otel"].write(tmp_path / "o.jsonl", [searching], "0.1")
    spans = json.loads((tmp_path / "o.jsonl").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    used = [span for span in spans if span["name"] == "execute_tool search"]
    assert attributes(used[0])["gen_ai.tool.call.result"] == {"stringValue": call.text}
    sample = inspect_log.sample(searching, 1)
    events = [event for event in sample["events"] if event["event"] == "tool"]
    assert (events[0]["function"], events[0]["result"]) == ("search", call.text)
    assert len(events) == len(used) == sum(len(each.calls) for each in searching.trajectory.actions)
    assert len({event["id"] for event in events}) == len(events)


def test_every_task_has_the_member_that_inspect_looks_for(episodes: list[Recorded], tmp_path: Path) -> None:
    tasks = ("a/b", "a_b", "a b", "a\0b")
    renamed = []
    for task in tasks:
        trajectory = episodes[0].trajectory
        task_of = dataclasses.replace(trajectory.task, id=task)
        renamed.append(
            dataclasses.replace(episodes[0], trajectory=dataclasses.replace(trajectory, task=task_of))
        )
    FORMATS["inspect"].write(tmp_path / "log.eval", renamed, "0.1")
    with zipfile.ZipFile(tmp_path / "log.eval") as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        ids = [json.loads(archive.read(name))["id"] for name in names]
    assert len(set(ids)) == len(tasks)
    assert names == [f"samples/{each}_epoch_1.json" for each in ids]


def test_spans_are_otlp(episodes: list[Recorded], tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    assert FORMATS["otel"].write(path, episodes, "0.1") == 2
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines())
    spans = first["resourceSpans"][0]["scopeSpans"][0]["spans"]
    names = [span["name"] for span in spans]
    assert names == [
        "invoke_agent mappa-team",
        *("invoke_agent solver_0", "chat lead"),
        *("invoke_agent coder_0", "chat lead", "execute_tool python", "chat lead"),
        *("invoke_agent verifier_0", "chat lead"),
    ]
    ids = {span["spanId"] for span in spans}
    assert len(ids) == len(spans)
    assert all(len(span["spanId"]) == 16 and len(span["traceId"]) == 32 for span in spans)
    assert {span["parentSpanId"] for span in spans} - {""} < ids
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)
    root = spans[0]
    assert int(root["startTimeUnixNano"]) > 1e18
    event = attributes(spans[2]["events"][0])
    assert event["gen_ai.evaluation.score.value"] == {"doubleValue": 1.0}
    unscored = second["resourceSpans"][0]["scopeSpans"][0]["spans"][2]["events"][0]
    assert "gen_ai.evaluation.score.value" not in attributes(unscored)
    assert attributes(unscored)["gen_ai.evaluation.score.label"] == {"stringValue": "abstain"}


def attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: each["value"] for each in holder["attributes"]}


READ = """
import json, math, sys
from inspect_ai.log import read_eval_log, read_eval_log_samples
log = read_eval_log(sys.argv[1])
found = []
for sample in log.samples:
    events = [
        [event.event, event.span_id, getattr(event, "name", ""), getattr(event, "role", "")]
        + ([event.score.value, event.intermediate, event.score.explanation] if event.event == "score" else [])
        for event in sample.events
    ]
    outcome = sample.scores["outcome"].value
    found.append({"id": sample.id, "epoch": sample.epoch, "outcome": outcome, "events": events,
                  "messages": len(sample.messages)})
samples = len(list(read_eval_log_samples(sys.argv[1])))
print(json.dumps({"status": log.status, "samples": found, "streamed": samples,
                  "mean": log.results.scores[0].metrics["mean"].value}))
"""


def test_inspect_opens_its_log(episodes: list[Recorded], tmp_path: Path) -> None:
    python = Path(sys.executable) if importlib.util.find_spec("inspect_ai") else INSPECT
    if not python.is_file():
        pytest.skip(f"no Python with inspect_ai: {INSPECT}; `make inspect` has it")
    path = tmp_path / "log.eval"
    assert FORMATS["inspect"].write(path, episodes, "0.1") == 2
    done = subprocess.run([str(python), "-c", READ, str(path)], capture_output=True, text=True, check=True)
    log = json.loads(done.stdout)
    assert (log["status"], log["streamed"], log["mean"]) == ("success", 2, 0.0)
    first, second = log["samples"]
    assert (first["id"], first["epoch"], second["epoch"]) == (episodes[0].trajectory.task.id, 1, 2)
    spans = [event[2] for event in first["events"] if event[0] == "span_begin"]
    assert spans == ["solver_0", "coder_0", "verifier_0"]
    kinds = [event[0] for event in first["events"]]
    assert kinds.count("model") == kinds.count("score") == 4
    assert kinds.count("tool") == 1
    scores = [event[4:] for event in first["events"] if event[0] == "score"]
    assert [score[0] for score in scores] == [
        action.verdict.score for action in episodes[0].trajectory.actions
    ]
    assert all(intermediate for _, intermediate, _ in scores)
    assert all(math.isnan(event[4]) for event in second["events"] if event[0] == "score")


def test_an_archive_of_inspect_has_its_members(episodes: list[Recorded], tmp_path: Path) -> None:
    """What its reader needs, checked also where inspect_ai is not installed."""
    path = tmp_path / "log.eval"
    FORMATS["inspect"].write(path, episodes, "0.1")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        header = json.loads(archive.read("header.json"))
        sample = json.loads(archive.read(next(name for name in names if name.endswith("_epoch_2.json"))))
    assert {"_journal/start.json", "summaries.json", "header.json"} < names
    assert header["results"]["total_samples"] == 2
    assert math.isnan(next(e for e in sample["events"] if e["event"] == "score")["score"]["value"])
