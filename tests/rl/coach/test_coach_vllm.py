"""A real OpenAI-compatible server as the coach: vLLM on the CPU, with a tiny random model.

The model has nothing to say, so what is tested is that a real server's messages are understood: guided
answers, refusals, time limits, and a restart in the middle of a run. Where a test needs verdicts of status
``ok``, ``SPOKEN`` leaves the model nothing but a true quote and a grade.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coach_server import KEY, PYTHON, CoachServer, make_tiny_model
from mappa_env.cli import main
from mappa_env.coach.llm.answer import form_of
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.openai_compat import OpenAIBackend
from mappa_env.coach.llm.rejections import PATIENCE
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Request, Unanswered
from mappa_env.envs.partners import Partners
from mappa_env.episode.episode import Episode
from mappa_env.errors import CoachStopped
from mappa_env.registration import find_card
from mappa_env.types import Verdict
from mappa_rl.config import load_config
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.trainer import train
from tiny_run import TINY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="neither vllm here nor MAPPA_VLLM_PYTHON"),
]
GRADED = form_of(
    {
        "quote": {"type": "string", "enum": ["agent"]},
        "grade": {"type": "integer", "enum": [0, 1, 2, 3, 4]},
    }
)
SPOKEN = form_of(
    {
        "criteria": form_of({name: GRADED for name in ("correctness", "usefulness", "honesty")}),
        "summary": {"type": "string", "enum": ["as asked"]},
        "blame": {"type": "string", "enum": ["nobody"]},
    }
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("coach") / "model"
    make_tiny_model(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[CoachServer]:
    found = CoachServer(folder)
    try:
        found.start()
        yield found
    finally:
        found.end()


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """``extra`` that replaces the schema of verdicts by ``SPOKEN``, which users may not do."""
    monkeypatch.setattr(Settings, "own_fields", {})
    return guided(SPOKEN)


def coach_of(server: CoachServer, model: str = "tiny", **options: Any) -> dict[str, Any]:
    return {"name": f"openai:{model}@{server.url}", "deadline_s": 300.0, **options}


def guided(schema: dict[str, Any]) -> dict[str, Any]:
    """Fields of a request that replace the schema that the coach asks for."""
    named = {"name": "verdict", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def verdicts(server: CoachServer, **options: Any) -> list[Verdict]:
    card = find_card("mathchat")
    episode = Episode(card, coach=coach_of(server, **options), sandbox="calculator", judging="deferred")
    team = Partners(card, "expert", agent=None, prompts="full")
    episode.reset(seed=0)
    team.reset(episode)
    while not episode.over:
        episode.act(team.act(episode))
    episode.close()
    return [action.verdict for action in episode.actions]


def test_guided_answers_fill_the_schema_and_their_quotes_are_checked(
    server: CoachServer, folder: Path
) -> None:
    """A bias for the quotation mark ends the strings, which the model alone would never do."""
    from transformers import AutoTokenizer

    mark = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids('"')
    found = verdicts(server, extra={"logit_bias": {str(mark): 50}}, max_output_tokens=1024)
    assert len(found) == 4
    for verdict in found:
        assert verdict.status == "suspect", verdict
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10
        assert verdict.asked is not None
        assert (verdict.asked.calls, verdict.asked.model_version) == (1, "tiny")
        assert verdict.asked.prompt > 100
        assert verdict.asked.output > 10


def test_a_true_quote_makes_a_score(server: CoachServer, spoken: dict[str, Any]) -> None:
    for verdict in verdicts(server, extra=spoken):
        assert (verdict.status, verdict.reasoning) == ("ok", "as asked"), verdict
        grades = {row.name: row.score * 4 for row in verdict.criteria}
        assert set(grades) == {"correctness", "usefulness", "honesty"}
        assert all(grade in (0, 1, 2, 3, 4) for grade in grades.values())
        assert verdict.score is not None
        assert 0 <= verdict.score <= 10


def test_an_answer_without_an_end_is_no_score(server: CoachServer) -> None:
    for verdict in verdicts(server, max_output_tokens=64):
        assert (verdict.status, verdict.score) == ("abstain", None), verdict
        assert "length" in verdict.reasoning


def test_calls_that_take_too_long_are_given_up_by_both_sides(server: CoachServer) -> None:
    """The server stops working on a call that nobody waits for, so retries do not pile up there."""
    limits = {"timeout_s": 0.2, "deadline_s": 20.0, "base_s": 0.1}
    limits["breaker_failures"] = 1000  # an open breaker would let one call through
    for verdict in verdicts(server, max_output_tokens=4096, **limits):
        assert (verdict.status, verdict.score) == ("error", None), verdict
        assert verdict.reasoning.endswith("no answer in time")
        assert verdict.asked is not None
        assert verdict.asked.calls > 1
    until = time.monotonic() + 60
    while server.running():
        assert time.monotonic() < until, "the server works on for nobody"
        time.sleep(0.2)


def test_a_model_that_is_not_served_stops_the_run(server: CoachServer) -> None:
    with pytest.raises(CoachStopped, match=r"404.*does not exist"):
        verdicts(server, model="other")


def test_a_wrong_key_stops_the_run_and_is_not_shown(
    server: CoachServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    with pytest.raises(CoachStopped, match=r"401.*check OPENAI_API_KEY") as caught:
        verdicts(server)
    assert "another-key" not in str(caught.value)


def test_a_prompt_that_the_model_has_no_room_for_gets_no_verdict_and_a_run_of_them_stops(
    server: CoachServer,
) -> None:
    backend = OpenAIBackend(Model("tiny"), Settings(), server.url)
    long = Request("Judge.", ("word " * 20_000,), SPOKEN)
    for _ in range(PATIENCE - 1):
        with pytest.raises(Unanswered, match=r"answered 400 .*context length.*8192"):
            backend.complete(long, 60.0)
    with pytest.raises(CoachStopped, match=r"answered 400 .*context length.*8192.*no prompt fits"):
        backend.complete(long, 60.0)
    backend.close()


def test_the_openai_client_gets_the_same_answer(server: CoachServer) -> None:
    """Of the same question, at temperature 0."""
    openai = pytest.importorskip("openai")
    backend = OpenAIBackend(Model("tiny"), Settings(), server.url)
    question = Request("Judge.", ("the task", "the action"), SPOKEN, max_output_tokens=512)
    ours = backend.complete(question, 60.0)
    backend.close()
    theirs = openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0).chat.completions.create(
        model="tiny",
        messages=[
            {"role": "system", "content": "Judge."},
            {"role": "user", "content": "the task\n\nthe action"},
        ],
        max_completion_tokens=512,
        temperature=0,
        seed=0,
        **guided(SPOKEN),
    )
    assert ours.text == theirs.choices[0].message.content
    assert json.loads(ours.text)["summary"] == "as asked"
    assert (ours.usage.prompt, ours.usage.output) == (
        theirs.usage.prompt_tokens,
        theirs.usage.completion_tokens,
    )
    assert ours.model_version == theirs.model


def test_the_benchmark_of_coaches_runs_on_it(
    server: CoachServer, spoken: dict[str, Any], tmp_path: Path
) -> None:
    coach = json.dumps(coach_of(server, extra=spoken))
    command = ["coach", "bench", "mappa/MathChat-v0", "--coach", coach, "--sandbox", "calculator"]
    limits = ["--episodes", "1", "--limit", "2", "--controls", "0", "--json", str(tmp_path / "figures.json")]
    assert main([*command, *limits]) == 0
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["counted"] == 2
    assert not found["interrupted"]
    assert found["coach"]["name"] == f"openai:tiny@{server.url}"


def test_a_run_outlives_a_restart_of_its_coach(
    server: CoachServer, spoken: dict[str, Any], tmp_path: Path
) -> None:
    """The server is killed while it judges, and starts again: each action has its score all the same."""
    out = tmp_path / "run"
    coach = coach_of(server, extra=spoken, timeout_s=60.0, breaker_pause_s=1.0, cap_s=5.0)
    small = ["rollout.episodes_per_step=4", "eval.episodes=1", "run.steps=2", "env.judging=deferred"]
    config = load_config("demo", [*TINY, *small, f"env.coach={json.dumps(coach | {'deadline_s': 900.0})}"])
    noted: list[str] = []

    def restart() -> None:
        while not (read_metrics(out) and server.running()):  # in the second step
            time.sleep(0.2)
        server.end(signal.SIGKILL)
        noted.append("killed")
        server.start()
        noted.append("started")

    killer = threading.Thread(target=restart, daemon=True)
    killer.start()
    train(config, out)
    killer.join(60)
    assert noted == ["killed", "started"]
    first, second = read_metrics(out)
    assert (first["coach/retries"], second["coach/retries"] > 0) == (0, True)
    for row in (first, second):
        judged = {name: value for name, value in row.items() if name.startswith("coach/ok/")}
        assert len(judged) == 3
        assert set(judged.values()) == {1.0}
