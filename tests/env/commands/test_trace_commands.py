"""``mappa-env trace``: what was recorded, in a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from rich.console import Console

from hostile import PAYLOADS, hostile_episode
from mappa_env import team_env
from mappa_env.cli import main
from mappa_env.envs.colours import Painter
from mappa_env.envs.rendering import render_section
from mappa_env.scripted import make_team
from mappa_env.trace import TraceStore
from mappa_env.types import Attribution, Link, Outcome, Task, Timing, ToolCall, Trajectory, Verdict
from recorded import recorded

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e<b>[bold]== step 9 · liar_0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces: one of a faulty and a hostile team, and one of an expert team on the same task."""
    folder = tmp_path_factory.mktemp("traces")
    for name, teams in (("a", ("faulty", "hostile")), ("b", ("expert",))):
        env = gym.make("mappa/MathChat-v0", sandbox="calculator", record=str(folder / f"{name}.jsonl.gz"))
        for team in teams:
            env.reset(seed=11)
            episode = team_env(env).episode
            script = make_team("mathchat", "faulty" if team == "hostile" else team)
            script.reset(episode.task, seed=1)
            while not episode.over:
                text = script.act(episode.agent, episode.turn, episode.actions)
                env.step(HOSTILE + text if team == "hostile" else text)
        env.close()
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    status = main(["trace", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out + err


def test_ls_lists_scores_and_filters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "ls", folder)
    assert status == 0
    assert "3 episodes" in text
    _, text = said(capsys, "ls", folder, "agent=verifier_0", "score>9")
    assert "1 episodes" in text
    _, text = said(capsys, "ls", folder, "--most", "1")
    assert "of which 1 are shown" in text
    status, text = said(capsys, "ls", folder, "agnet=x")
    assert status == 2
    assert "Did you mean 'agent'?" in text


def test_ls_has_a_whole_line_per_episode_and_the_key_that_show_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = said(capsys, "ls", folder)
    _, *rows, _ = text.splitlines()
    assert len(rows) == 3
    for row in rows:
        assert "train-linear-03581" in row
        assert "coder_0" in row
        assert "verifier_0" in row
        key = row.split()[1]
        assert said(capsys, "show", folder, "--episode", key)[1].splitlines()[0].endswith(f" · {key}")


def test_a_file_that_is_not_a_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("hello\n", '{"a": 1}\n', "no line"):
        (tmp_path / "t.jsonl").write_text(content)
        status, text = said(capsys, "ls", tmp_path / "t.jsonl")
        assert status == 2
        assert "is not a trace" in text
    for content in ("", '{"v":2,"ki'):  # what a writer has just begun
        (tmp_path / "t.jsonl").write_text(content)
        assert said(capsys, "ls", tmp_path / "t.jsonl")[0] == 0


def test_calls_of_tools_are_found_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ToolCall("search", {"query": "tall towers"}, "timeout", "one: 5\n== liar_0 · turn 0 · 10.0/10")
    episode = Trajectory("X-v0", Task("t", "p", "exact_text"), 1, (recorded(calls=(call,)),), None)
    for name, text in (("a", call.text), ("b", "two")):
        actions = (recorded(calls=(dataclasses.replace(call, text=text),)),)
        store = TraceStore(tmp_path / f"{name}.jsonl")
        store.append(dataclasses.replace(episode, actions=actions))
        store.close()
    assert 'call: search {"query": "tall towers"}' in said(capsys, "grep", "tall", tmp_path / "a.jsonl")[1]
    assert "result: one: 5" in said(capsys, "grep", "one", tmp_path / "a.jsonl")[1]
    assert "(timeout)" in said(capsys, "ls", tmp_path / "a.jsonl", "tool=timeout")[1]
    assert "cut off" in said(capsys, "show", tmp_path / "a.jsonl")[1]
    _, text = said(capsys, "diff", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--task", "t")
    assert "-   one: 5" in text
    assert "-   == liar_0" in text


def test_a_suspect_verdict_is_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    action = recorded(verdict=Verdict("suspect", 9.0))
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(Trajectory("X-v0", Task("t", "p", "exact_text"), 1, (action,), None))
    store.close()
    assert "solver_0 suspect" in said(capsys, "ls", tmp_path / "t.jsonl", "score=none")[1]
    assert "score of solver_0  none" in said(capsys, "diff", *[tmp_path / "t.jsonl"] * 2)[1]


def test_show_has_verdicts_and_only_new_messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "show", folder / "a.jsonl.gz", "--full")
    assert status == 0
    assert "rubric: ok, 1.0/10; reward 1.00" in text
    assert "10% of 1.00  plan" in text
    assert "prompt (2 messages that the agent knows, then:)" in text
    assert "no success, score 0.000" in text
    _, matching = said(capsys, "show", folder / "a.jsonl.gz", "agent=coder_0", "turn=1")
    assert matching.count("== step") == 1
    status, text = said(capsys, "show", folder, "--episode", "99")
    assert status == 2
    assert "has no episode '99': it has 3, numbered from 0" in text
    assert said(capsys, "show", folder, "score>11")[0] == 1


def test_long_prompts_are_folded_in_the_middle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folded = said(capsys, "show", folder, "agent=verifier_0")
    _, whole = said(capsys, "show", folder, "agent=verifier_0", "--full")
    assert "characters]" in folded
    assert "characters]" not in whole
    assert len(folded) < len(whole)


@pytest.mark.parametrize("command", ["ls", "show", "grep", "diff"])
def test_hostile_text_is_inert(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {
        "ls": ["ls", folder],
        "show": ["show", folder, "--all", "--full"],
        "grep": ["grep", "liar", folder],
        "diff": ["diff", folder / "a.jsonl.gz", folder / "a.jsonl.gz", "--task", "train-linear-03581"],
    }[command]
    _, text = said(capsys, *words)
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert not any(line.startswith("== step 9 · liar_0") for line in text.split("\n"))
    if command in ("show", "grep"):
        assert "<b>[bold]" in text  # as it is, not as markup


def test_grep_finds_texts_where_they_were_new(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "grep", r"RESULT:\s*\d+", folder / "b.jsonl.gz", "-i")
    assert status == 0
    assert "coder_0 action: result:" in text
    assert said(capsys, "grep", "no such text", folder)[0] == 1
    status, text = said(capsys, "grep", "(", folder)
    assert status == 2
    assert "is not a regular expression" in text
    assert said(capsys, "grep", "-F", "(", folder)[0] == 0


def test_diff_pairs_tasks_and_seeds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "diff", folder / "a.jsonl.gz", folder / "b.jsonl.gz")
    assert status == 0
    assert "failure -> success" in text
    assert "1 episodes on the same task and seed; 1 ended differently" in text
    _, text = said(
        capsys, "diff", folder / "a.jsonl.gz", folder / "b.jsonl.gz", "--task", "train-linear-03581"
    )
    assert any(line.startswith("+") for line in text.split("\n"))
    status, text = said(capsys, "diff", folder / "a.jsonl.gz", folder / "b.jsonl.gz", "seed=1")
    assert status == 2


@pytest.mark.parametrize(("form", "name"), [("atif", "out"), ("inspect", "o.eval"), ("otel", "o.jsonl")])
def test_export_writes_and_says_what_it_drops(
    form: str, name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = said(capsys, "export", folder, tmp_path / name, "--format", form, "--dropped")
    assert status == 0
    assert ": 3 episodes" in text.replace("\n", "")
    assert "dropped:" in text
    status, text = said(capsys, "export", folder, tmp_path / name, "--format", form)
    assert status == 2
    assert "exists already" in text


def test_colours_mark_scores_and_quotes_in_verdicts_alone() -> None:
    out = io.StringIO()
    painter = Painter(Console(file=out, force_terminal=True, color_system="standard", highlight=False))
    verdict = 'judge: ok, 2.0/10; reward 2.00\n  20% of 1.00  sound: "it \x1b[7mcopied"'
    painter.print(
        "\n".join([render_section("action", '20% of "x" 2.0/10'), render_section("verdict", verdict)])
    )
    action, shown = out.getvalue().split("verdict")
    assert "\x1b[31m20%\x1b[0m" in shown
    assert "\x1b[1;31m2.0/10\x1b[0m" in shown
    assert "\x1b[3;36m" in shown
    assert "\x1b[7m" not in shown
    assert "\x1b[31m" not in action


def test_no_text_of_an_agent_begins_a_line_or_reaches_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payloads = tuple(f"{text}\n== step 9 · forged · turn 0\n-- verdict\x1b]0;x\x07" for text in PAYLOADS[:12])
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(hostile_episode(payloads))
    store.close()
    status, text = said(capsys, "show", tmp_path / "t.jsonl", "--full")
    assert status == 0
    assert "\n== step 9 · forged" not in text
    assert text.count("\n-- verdict\n") == len(payloads)
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["ls", tmp_path / "no.jsonl"], ["show", tmp_path / "no.jsonl"]):
        status, text = said(capsys, *words)
        assert status == 2
        assert "cannot be read: No such file" in text.replace("\n", " ")
    (tmp_path / "empty").mkdir()
    status, text = said(capsys, "ls", tmp_path / "empty")
    assert status == 2
    assert "has no traces" in text


@pytest.mark.parametrize("name", ["[/x]", "[bold", "\x1b]0;owned\x07", "a\nb"])
def test_no_name_of_an_agent_or_status_is_markup(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    action = recorded(agent=name, verdict=Verdict("ok", 4.0))
    outcome = Outcome(0.0, False, name, name)
    blame = Attribution(True, (1.0,), "tracing", (Link(0, name),), (0,))
    episode = Trajectory("X-v0", Task(name, "p", "exact_text"), 1, (action,), outcome, attribution=blame)
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(episode)
    store.close()
    for words in (["trace", "ls", tmp_path / "t.jsonl"], ["trace", "diff", *[tmp_path / "t.jsonl"] * 2]):
        assert main([*map(str, words)]) == 0
    with contextlib.suppress(SystemExit):
        main(["why", str(tmp_path / "t.jsonl"), "--card", "mathchat"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "0 of 1 episodes succeeded" in out
    if name.startswith("["):
        assert name in out


def test_a_card_without_the_agents_of_a_trace_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    outcome = Outcome(0.0, False, "wrong", "")
    store.append(Trajectory("X-v0", Task("t", "p", "exact_text"), 1, (recorded(agent="painter_0"),), outcome))
    store.close()
    assert main(["why", str(tmp_path / "t.jsonl"), "--card", "mathchat"]) == 2
    assert "has no painter_0" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["atif", "inspect", "otel"])
def test_an_export_that_cannot_be_written_is_refused(
    form: str, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "out", Path("/proc/nowhere/out")):
        status, text = said(capsys, "export", folder / "a.jsonl.gz", place, "--format", form)
        assert status == 2
        assert "cannot be written" in text


@pytest.mark.parametrize("form", ["atif", "inspect", "otel"])
def test_times_that_no_calendar_has_are_left_out(form: str, tmp_path: Path, capsys: Any) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    task, timing = Task("t", "p", "exact_text"), Timing(at=1e300, waited_s=0.0, took_s=0.0)
    store.append(Trajectory("X-v0", task, 1, (recorded(),), None, timings=(timing,)))
    store.close()
    assert said(capsys, "export", tmp_path / "t.jsonl", tmp_path / "out", "--format", form)[0] == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"rows":[[', b'"rows":5,"x":[['),
        (b'"episode":{', b'"episode":"x","y":{'),
        (b'"about":{}', b'"about":[1]'),
        (b'"rows":[["solver_0",0,0,"ok",', b'"rows":[["solver_0",0,0,["ok"],'),
        (b'"rows":[["solver_0",0,0,"ok",4.0', b'"rows":[["solver_0",0,0,"ok","x"'),
    ],
)
def test_an_episode_of_other_types_is_refused_in_a_sentence(
    before: bytes, after: bytes, tmp_path: Path, capsys: Any
) -> None:
    store = TraceStore(tmp_path / "t.jsonl")
    action = recorded(verdict=Verdict("ok", 4.0))
    store.append(Trajectory("X-v0", Task("t", "p", "exact_text"), 1, (action,), None))
    store.close()
    whole = (tmp_path / "t.jsonl").read_bytes()
    assert before in whole
    (tmp_path / "t.jsonl").write_bytes(whole.replace(before, after))
    status, text = said(capsys, "ls", tmp_path / "t.jsonl", "phase=x")
    assert (status, "is not one" in text) == (2, True)
