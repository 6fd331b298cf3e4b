"""``mappa-env eval`` and ``leaderboard`` against real HTTP servers on loopback."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fake_chats import multiplier, speaking
from fake_llm import Call, FakeServer, failing, serving
from mappa_env.cli import main
from mappa_env.envs.team_env import TeamEnv

ENV = "mappa/MathChat-v0"
FAST = ["--sandbox", "null", "--concurrency", "2"]


def evaluate(out: Path, *arguments: str, env: str = ENV) -> int:
    return main(["eval", env, *FAST, "--out", str(out), *arguments])


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def figures(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "evaluation.json").read_text())
    return found


def experts() -> Any:
    """The scripted experts of MathChat behind a server: they know the tasks by their prompts."""
    env = TeamEnv("mathchat", tasks="eval", coach="off", sandbox="null")
    by_prompt = {}
    for task_id in env.task_ids:
        task = env.episode.tasks.get(task_id)
        by_prompt[task.prompt] = task
    env.close()

    def speak(call: Call) -> str:
        task = next(task for prompt, task in by_prompt.items() if prompt in call.text)
        return f"The answer is \\boxed{{{task.truth['answer']}}}."

    return speak


def test_a_team_of_one_model_is_played_graded_and_ranked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("openai", otherwise=speaking(experts())) as fake:
        assert evaluate(tmp_path / "a", "--model", "m", "--base-url", fake.url, "--limit", "5") == 0
    found = figures(tmp_path / "a")["environments"][0]
    assert found["success"] == {"mean": 1.0, "low": pytest.approx(0.5655, abs=1e-4), "high": 1.0, "n": 5}
    assert {row["task_id"] for row in rows(tmp_path / "a")} != set()
    assert found["tokens"]["solver_0"]["calls"] == 5
    assert "100.0 [56.6, 100.0]" in capsys.readouterr().out
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(tmp_path / "b", "--model", "n", "--base-url", fake.url, "--limit", "5") == 0
    page, document = tmp_path / "page.html", tmp_path / "rows.json"
    command = [
        "leaderboard",
        str(tmp_path / "b"),
        str(tmp_path / "a"),
        "--html",
        str(page),
        "--json",
        str(document),
    ]
    assert main(command) == 0
    ranked = json.loads(document.read_text())[ENV]
    assert [row["models"] for row in ranked] == ["m", "n"]
    assert "<script" not in page.read_text()


def test_every_agent_may_have_a_model_and_a_server_of_its_own(tmp_path: Path) -> None:
    with (
        serving("openai", otherwise=speaking(experts())) as one,
        serving("openai", otherwise=speaking(multiplier), model_version="other") as two,
    ):
        arguments = [
            "--model",
            f"openai:a@{one.url}",
            "--agent",
            f"verifier_0=openai:b@{two.url}",
            "--limit",
            "3",
        ]
        assert evaluate(tmp_path / "e", *arguments) == 0
    assert Counter(call.body["model"] for call in one.calls) == {"a": 6}
    assert Counter(call.body["model"] for call in two.calls) == {"b": 3}
    assert rows(tmp_path / "e")[0]["versions"] == {
        "solver_0": "fake-model-001",
        "coder_0": "fake-model-001",
        "verifier_0": "other",
    }


def test_an_interrupted_evaluation_goes_on_and_no_episode_is_played_twice(tmp_path: Path) -> None:
    out = tmp_path / "e"
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        arguments = ["--model", f"openai:m@{fake.url}", "--limit", "6", "--samples", "2"]
        assert evaluate(out, *arguments) == 0
        whole, calls = rows(out), len(fake.calls)
        lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
        (out / "episodes.jsonl").write_text("".join(lines[:7]) + lines[7][:40])  # a crash in the eighth
        assert evaluate(out, *arguments) == 0
        assert len(fake.calls) - calls == 5 * calls // 12
    keys = [(row["task_id"], row["sample"]) for row in rows(out)]
    assert sorted(keys) == sorted((row["task_id"], row["sample"]) for row in whole)
    assert len(set(keys)) == 12


def test_a_folder_takes_no_other_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        assert evaluate(tmp_path / "e", "--model", f"openai:m@{fake.url}", "--limit", "1") == 0
        assert evaluate(tmp_path / "e", "--model", f"openai:m@{fake.url}", "--limit", "2") == 2
    words = capsys.readouterr().err
    assert "limit=1" in words
    assert "--out" in words


def test_episodes_that_a_server_fails_are_said_and_played_the_next_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = []

    def say(fake: FakeServer, call: Call) -> Any:
        return (speaking(multiplier) if up else failing(503))(fake, call)

    with serving("openai", otherwise=say) as fake:
        spec = f"{{name: 'openai:m@{fake.url}', deadline_s: 0.3, base_s: 0.01, breaker_failures: 1000}}"
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "4") == 2
        assert "4 of 4 episodes could not be played" in capsys.readouterr().err
        up.append(True)
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "4") == 0
    assert len(rows(tmp_path / "e")) == 4


def test_a_wrong_key_ends_it_at_once_and_appears_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-123456")
    with serving("openai", otherwise=failing(401, "sk-canary-123456 is no key")) as fake:
        assert evaluate(tmp_path / "e", "--model", f"openai:m@{fake.url}", "--limit", "3") == 2
        assert len(fake.calls) <= 2
    words = capsys.readouterr().err
    assert "OPENAI_API_KEY" in words
    everything = words + "".join(path.read_text() for path in (tmp_path / "e").rglob("*") if path.is_file())
    assert "canary" not in everything


def test_refusals_and_cut_answers_are_actions(tmp_path: Path) -> None:
    with serving("openai", otherwise=speaking(multiplier, finish="length")) as fake:
        assert evaluate(tmp_path / "cut", "--model", f"openai:m@{fake.url}", "--limit", "2") == 0
    assert figures(tmp_path / "cut")["environments"][0]["flaws"] == {"truncated": 6}
    with serving("openai", otherwise=speaking(lambda call: "", finish="content_filter")) as fake:
        assert evaluate(tmp_path / "refused", "--model", f"openai:m@{fake.url}", "--limit", "2") == 0
    assert figures(tmp_path / "refused")["environments"][0]["success"]["mean"] == 0


def test_the_sample_of_tasks_depends_on_the_seed_alone(tmp_path: Path) -> None:
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        chosen = []
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
            arguments = ["--model", f"openai:m@{fake.url}", "--limit", "8", "--seed", seed]
            assert evaluate(tmp_path / name, *arguments) == 0
            chosen.append({row["task_id"] for row in rows(tmp_path / name)})
    assert chosen[0] == chosen[1] != chosen[2]


def test_what_is_sent_is_the_conversation_with_a_seed_and_nothing_hidden(tmp_path: Path) -> None:
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        arguments = ["--limit", "1", "--temperature", "0.6", "--max-tokens", "99"]
        assert evaluate(tmp_path / "e", "--model", f"openai:m@{fake.url}", *arguments) == 0
    body = fake.calls[0].body
    assert body["temperature"] == 0.6
    assert body["max_completion_tokens"] == 99
    assert 0 <= body["seed"] < 2**31
    assert "response_format" not in body
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert len({call.body["seed"] for call in fake.calls}) == len(fake.calls)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "who plays?"),
        (["--model", "m"], "--base-url"),
        (["--model", "openai:m@ftp://x"], "base_url must look like"),
        (["--model", "openai:m@http://x/v1", "--agent", "coder=openai:m@http://x/v1"], "coder_0"),
        (["--agent", "coder_0=openai:m@http://x/v1"], "solver_0 has no model"),
        (
            ["--model", "constant:1", "--agent", "coder_0=constant:2", "--agent", " coder_0 =constant:3"],
            "twice",
        ),
        (["--model", "{name: 'openai:m@http://x/v1', budgets: 3}"], "budget"),
        (["--model", "openai:m@http://x/v1", "--samples", "2", "--temperature", "0"], "same episode"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(tmp_path / "e", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("model", "named in its specification"),
        ("messages", "the card's"),
        ("seed", "a seed of its own"),
        ("temperature", "the option temperature"),
        ("max_tokens", "the option max_output_tokens"),
        ("max_completion_tokens", "the option max_output_tokens"),
        ("n", "one answer"),
        ("stream", "as a whole"),
    ],
)
def test_extra_fields_replace_none_that_a_request_has(
    name: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = {"top_p": 0.9, name: "hidden"}
    spec = json.dumps({"name": "openai:m@http://127.0.0.1:9/v1", "extra": extra})
    assert evaluate(tmp_path / "e", "--model", spec, "--dry-run") == 2
    words = capsys.readouterr().err
    assert f"extra: may only add fields to the request, not replace {name!r}" in words
    assert remedy in words
    assert "hidden" not in words


def test_extra_fields_reach_the_server(tmp_path: Path) -> None:
    extra = {"top_p": 0.9, "response_format": {"type": "text"}}
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        spec = json.dumps({"name": f"openai:m@{fake.url}", "extra": extra})
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "1") == 0
    assert fake.calls[0].body.items() >= extra.items()
    assert fake.calls[0].body["model"] == "m"


def test_a_dry_run_asks_no_server_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", "openai:m@http://127.0.0.1:9/v1", "--limit", "3", "--samples", "4", "--dry-run"]
    assert evaluate(tmp_path / "e", *arguments) == 0
    assert "12 episodes" in capsys.readouterr().out
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("out", ["/dev/null", "/dev/null/e", "file", "file/e", "full"])
def test_a_dry_run_finds_an_out_that_can_be_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "other.txt").write_text("")
    assert evaluate(tmp_path / out, "--model", "constant:x", "--limit", "1", "--dry-run") == 2
    assert "choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--max-tokens", "10000001"],
        ["--model", "{name: 'openai:m@http://127.0.0.1:9/v1', max_output_tokens: 10000001}"],
    ],
)
def test_no_action_has_ten_million_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert evaluate(tmp_path / "e", *arguments, "--dry-run") == 2
    assert "10000000" in capsys.readouterr().err


def test_pass_at_k_and_majorities_follow_their_definitions(tmp_path: Path) -> None:
    """Two of four samples of each task say the truth, two disagree with each other: the majority is right."""
    right = experts()
    counts: Counter[str] = Counter()

    def speak(call: Call) -> str:
        if "verifier" not in call.text.lower():
            return "I leave it to others."
        task = call.text[:200]
        counts[task] += 1
        return right(call) if counts[task] % 2 else f"\\boxed{{{counts[task] + 10_000}}}"

    with serving("openai", otherwise=speaking(speak)) as fake:
        arguments = [
            "--model",
            f"openai:m@{fake.url}",
            "--limit",
            "2",
            "--samples",
            "4",
            "--concurrency",
            "1",
        ]
        assert evaluate(tmp_path / "e", *arguments) == 0
    found = figures(tmp_path / "e")["environments"][0]
    wins = Counter(row["task_id"] for row in rows(tmp_path / "e") if row["success"])
    assert set(wins.values()) == {2}
    assert found["values"]["pass@1"]["mean"] == pytest.approx(0.5)
    assert found["values"]["pass@2"]["mean"] == pytest.approx(1 - 1 / 6)
    assert found["values"]["pass@4"]["mean"] == 1
    assert found["values"]["maj@4"]["mean"] == 1


def test_names_in_a_page_are_inert(tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    with serving("openai", otherwise=speaking(multiplier)) as fake:
        spec = json.dumps({"name": f"openai:{hostile}@{fake.url}"})
        assert evaluate(tmp_path / "e", "--model", spec, "--limit", "1") == 0
    assert main(["leaderboard", str(tmp_path / "e"), "--html", str(tmp_path / "page.html")]) == 0
    assert "<img" not in (tmp_path / "page.html").read_text()


def test_what_cannot_be_compared_is_ranked_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "first": [],
        "second": ["--sandbox", "calculator", "--samples", "2"],
        "fewer": ["--limit", "3"],
        "seeded": ["--seed", "7"],
        "brief": ["--prompts", "brief"],
    }
    for name, more in settings.items():
        arguments = ["--model", "trivial:first-number", "--limit", "5", *more]
        assert evaluate(tmp_path / name, *arguments) == 0
    document = tmp_path / "rows.json"
    capsys.readouterr()

    def ranked(*names: str) -> dict[str, list[str]]:
        command = ["leaderboard", *(str(tmp_path / name) for name in names), "--json", str(document)]
        assert main(command) == 0
        found = json.loads(document.read_text())
        return {heading: sorted(row["name"] for row in rows) for heading, rows in found.items()}

    assert ranked("first", "second") == {ENV: ["first", "second"]}
    assert "cannot be ranked" not in capsys.readouterr().out
    apart = ranked("first", "second", "fewer")
    assert sorted(apart.values()) == [["fewer"], ["first", "second"]]
    assert any(heading.startswith(f"{ENV}: 3 tasks (") for heading in apart)
    shown = capsys.readouterr().out
    assert "3 tasks (" in shown
    assert "cannot be ranked together" in shown
    lengths = ranked("first", "brief")  # their cards differ, too: in the prompts
    assert {heading.partition(",")[0]: names for heading, names in lengths.items()} == {
        f"{ENV}: prompts=full": ["first"],
        f"{ENV}: prompts=brief": ["brief"],
    }
    assert any("seed=7" in heading for heading in ranked("first", "seeded"))


def test_the_same_ids_from_another_file_are_other_tasks(tmp_path: Path) -> None:
    for name in ("one", "three"):
        row = {"prompt": f"What is 1 + {len(name)}?", "answer": 4, "year": 2020, "problem_number": 1}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
        arguments = ["--model", "trivial:first-number", "--tasks", str(tmp_path / f"{name}.jsonl")]
        assert evaluate(tmp_path / name, *arguments, env="mappa/AIME-v0") == 0
    document = tmp_path / "rows.json"
    folders = [str(tmp_path / name) for name in ("one", "three")]
    assert main(["leaderboard", *folders, "--json", str(document)]) == 0
    assert len(json.loads(document.read_text())) == 2


def test_one_file_is_not_the_tasks_of_two_benchmarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader takes any contest's rows, so AIME's problems would stand on the leaderboard as AMC's."""
    file = tmp_path / "problems.json"
    file.write_text(json.dumps([{"prompt": "What is 2 + 3?", "answer": "5"}]))
    words = ["--model", "constant:5", "--tasks", str(file), "--dry-run", "--out", str(tmp_path / "e")]
    assert main(["eval", "mappa/AIME-v0", "mappa/AMC-v0", *words]) == 2
    assert "evaluate each environment alone" in capsys.readouterr().err
    assert main(["eval", "mappa/AIME-v0", *words]) == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eval").mkdir()  # the split's name, and a folder of the user
    both = ["mappa/MathChat-v0", "mappa/DSBenchSprint-v0", "--model", "constant:5", "--limit", "1"]
    assert main(["eval", *both, "--dry-run", "--out", str(tmp_path / "f")]) == 0
