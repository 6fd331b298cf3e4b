"""``mappa-env eval`` against vLLM's OpenAI server on the CPU.

The tiny model is random, so what is tested is the way there and back: limits, token counts, keys.
In ``make test-all`` SmolLM2 plays too where ``make llm`` has put it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coach_server import KEY, PYTHON, CoachServer, make_tiny_model
from mappa_env.cli import main
from paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="neither vllm here nor MAPPA_VLLM_PYTHON"),
]
ENV = "mappa/MathChat-v0"
SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct"
AGENTS = {"solver_0", "coder_0", "verifier_0"}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module", params=["tiny", pytest.param("smollm2", marks=pytest.mark.large)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoachServer]:
    """Serves either model under the name ``tiny``."""
    folder = tmp_path_factory.mktemp("model") / "model"
    if request.param == "tiny":
        make_tiny_model(folder)
    elif (SMOLLM2 / "config.json").is_file():
        folder.symlink_to(SMOLLM2)
    else:
        pytest.skip("no SmolLM2 here: make llm")
    found = CoachServer(folder)
    try:
        found.start()
        yield found
    finally:
        found.end()


def evaluate(server: CoachServer, out: Path, *arguments: str) -> int:
    few = ["--limit", "3", "--samples", "2", "--max-tokens", "24", "--sandbox", "calculator"]
    model = ["--model", "tiny", "--base-url", server.url, "--temperature", "0.8"]
    return main(["eval", ENV, *model, *few, "--out", str(out), *arguments])


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def test_a_served_model_is_evaluated_and_ranked_beside_the_experts(
    server: CoachServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, expert = tmp_path / "served", tmp_path / "expert"
    assert evaluate(server, out) == 0
    found = json.loads((out / "evaluation.json").read_text())["environments"][0]
    assert (found["tasks"], found["samples"]) == (3, 2)
    assert set(found["tokens"]) == AGENTS
    for agent, spent in found["tokens"].items():
        assert spent["calls"] >= 6, agent
        assert spent["retries"] == 0
        assert spent["prompt"] > 100 * spent["calls"]  # whole prompts arrive
        assert 0 < spent["output"] <= 24 * spent["calls"]
    assert {version for row in rows(out) for version in row["versions"].values()} == {"tiny"}
    cut = sum(row["flaws"].get("truncated", 0) for row in rows(out))
    assert 0 < cut <= sum(row["actions"] for row in rows(out))
    assert main(["eval", ENV, "--model", "scripted:expert", "--limit", "3", "--sandbox", "calculator",
                 "--out", str(expert)]) == 0  # fmt: skip
    assert main(["leaderboard", str(out), str(expert), "--json", str(tmp_path / "rows.json")]) == 0
    ranked = json.loads((tmp_path / "rows.json").read_text())[ENV]
    assert [row["models"] for row in ranked] == ["scripted:expert", "tiny"]
    assert KEY not in capsys.readouterr().out + "".join(path.read_text() for path in out.iterdir())


def test_it_plays_what_is_missing_alone(server: CoachServer, tmp_path: Path) -> None:
    out = tmp_path / "e"
    assert evaluate(server, out) == 0
    whole, path = rows(out), out / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    assert evaluate(server, out) == 0
    assert rows(out)[:4] == whole[:4]
    assert sorted((row["task_id"], row["sample"]) for row in rows(out)) == sorted(
        (row["task_id"], row["sample"]) for row in whole
    )


def test_a_wrong_key_and_an_unknown_model_end_it_with_the_servers_words(
    server: CoachServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert evaluate(server, tmp_path / "other", "--model", f"openai:other@{server.url}") == 2
    assert "does not exist" in capsys.readouterr().err
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    assert evaluate(server, tmp_path / "key") == 2
    said = capsys.readouterr().err
    assert "OPENAI_API_KEY" in said
    assert "another-key" not in said


def test_the_completion_probe_reaches_the_same_server(server: CoachServer, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    words = "How many of them are there? " * 12
    rows = [
        {"prompt": f"Problem {n} of {year}. {words}", "answer": n, "year": year, "problem_number": n}
        for year in (2020, 2022)
        for n in (1, 2, 3)
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = ["--model", "tiny", "--base-url", server.url, "--max-tokens", "16", "--sandbox", "null"]
    assert main(["eval", "mappa/AIME-v0", *model, "--tasks", str(tasks), "--out", str(tmp_path / "e")]) == 0
    out = tmp_path / "report.json"
    command = ["contamination", str(tmp_path / "e"), "--probe", "--cutoff", "2021", "--json", str(out)]
    assert main(command) == 0
    found = json.loads(out.read_text())["reports"]
    assert [each["what"] for each in found] == ["success", "verbatim continuations"]
    assert all(each["tasks"] == 6 and list(each["years"]) == ["2020", "2022"] for each in found)
