"""``mappa-env contamination`` on synthetic evaluations, and its statistics against other formulas."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import paths
from fake_chats import speaking
from fake_llm import Call, serving
from mappa_env.cli import main
from mappa_env.errors import StatsError
from mappa_env.evaluation.completion import continues, cut
from mappa_env.evaluation.episodes import Played, Tokens, append
from mappa_env.evaluation.folder import begin, finish
from mappa_env.evaluation.plan import Plan
from mappa_env.evaluation.years import number_of, year_of
from mappa_env.statistics.permutation import association_p

ENV = "mappa/AIME-v0"
DATA = paths.DATA / "AIME_1983_2024.json"
IDS = [f"aime-{year}-{number}" for year in range(2015, 2027) for number in range(1, 16)]


def evaluation(folder: Path, rate: Callable[[int, int], float], seed: int = 0, samples: int = 4) -> Path:
    """Each task of ``IDS`` succeeds with the probability ``rate(year, number)``."""
    rng = random.Random(seed)
    plan = Plan(envs=(ENV,), models={"*": {"name": "openai:m@http://127.0.0.1:9/v1"}}, samples=samples)
    played = begin(folder, plan)
    for task in IDS:
        chance = rate(int(task.split("-")[1]), int(task.split("-")[2]))
        for sample in range(samples):
            won = rng.random() < chance
            each = Played(
                ENV, task, sample, "aime", won, float(won), None, 1, {}, {}, {"a": Tokens()}, {}, {}, 0.0
            )
            append(folder, each)
            played.append(each)
    finish(folder, played)
    return folder


def report(folder: Path, *arguments: str) -> dict[str, object]:
    out = folder / "report.json"
    assert main(["contamination", str(folder), "--json", str(out), *arguments]) == 0
    found: dict[str, object] = json.loads(out.read_text())["reports"][0]
    return found


def leaked(year: int, number: int) -> float:
    return (0.9 if year <= 2022 else 0.4) * (1 - number / 30)


def honest(year: int, number: int) -> float:
    return 0.6 * (1 - number / 30)


def test_a_leak_is_found_and_honest_success_is_not_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(evaluation(tmp_path / "leaked", leaked), "--cutoff", "2022")
    assert found["p"] <= 0.001  # type: ignore[operator]
    assert found["gap"]["p"] <= 0.001  # type: ignore[index]
    assert 0.15 < found["gap"]["difference"]["low"] < found["gap"]["difference"]["mean"] < 0.5  # type: ignore[index]
    assert (found["tasks"], found["unknown"], found["strata"]) == (180, 0, True)
    shown = capsys.readouterr().out
    assert "up to 2022" in shown
    assert "contests became harder" in " ".join(shown.split())
    fair = [report(evaluation(tmp_path / str(n), honest, seed=n), "--cutoff", "2022")["p"] for n in range(6)]
    assert min(fair) > 0.01  # type: ignore[type-var]


def test_a_reference_takes_the_years_difficulty_out(tmp_path: Path) -> None:
    """Contests become harder for both; only a model that knows the old ones leads by more on them."""

    def harder(year: int, number: int) -> float:
        return 0.8 - 0.05 * (year - 2015)

    older = evaluation(tmp_path / "older", harder, seed=1)
    same = evaluation(tmp_path / "same", harder, seed=2)
    knows = evaluation(tmp_path / "knows", lambda y, n: harder(y, n) + 0.3 * (y <= 2020), seed=3)
    assert report(same)["p"] <= 0.01  # type: ignore[operator]
    assert report(same, "--reference", str(older))["p"] > 0.05  # type: ignore[operator]
    assert report(knows, "--reference", str(older))["p"] <= 0.01  # type: ignore[operator]


def test_years_come_from_ids_or_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert year_of("aime-2024-II-15", {}) == 2024
    assert year_of("aime-aime_2025-003", {}) == 2025
    assert year_of("amc-17", {}) is None
    assert year_of("2019-or-2020", {}) is None
    assert year_of("amc-17", {"amc-17": 2023}) == 2023
    assert [number_of(each) for each in ("aime-2024-II-15", "aime-1983-1", "amc-17")] == [15, 1, None]
    folder = evaluation(tmp_path / "e", honest)
    years = tmp_path / "years.json"
    years.write_text(json.dumps(dict.fromkeys(IDS, 2020)))
    found = report(folder, "--years", str(years), "--cutoff", "2021")
    assert (found["p"], found["gap"]) == (None, None)
    assert "nothing to compare" in capsys.readouterr().out
    years.write_text("[2020]")
    assert main(["contamination", str(folder), "--years", str(years)]) == 2
    assert "JSON object" in capsys.readouterr().err


def test_tasks_without_a_year_are_refused_or_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", "constant:x", "--sandbox", "null", "--limit", "3", "--out", str(tmp_path / "e")]
    assert main(["eval", "mappa/MathChat-v0", *arguments]) == 0
    assert main(["contamination", str(tmp_path / "e")]) == 2
    assert "--years" in capsys.readouterr().err
    assert main(["contamination", str(tmp_path / "nothing")]) == 2
    assert "holds no evaluation" in capsys.readouterr().err


def test_each_environment_is_reported_on_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of one environment is not lost because another has no years."""
    undated, dated = "mappa/AMC-v0", ENV

    def evaluated(folder: Path, *envs: str) -> Path:
        played = begin(folder, Plan(envs=envs, models={"*": {"name": "constant:x"}}))
        for env in envs:
            for n in range(5):
                task = f"aime-{2015 + n}-1" if env == dated else f"amc-{n}"
                each = Played(env, task, 0, "t", False, 0.0, None, 1, {}, {}, {"a": Tokens()}, {}, {}, 0.0)
                append(folder, each)
                played.append(each)
        finish(folder, played)
        return folder

    out = tmp_path / "report.json"
    assert main(["contamination", str(evaluated(tmp_path / "e", undated, dated)), "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert f"{dated}: success" in shown
    assert f"not reported: no task of {undated} has a known year" in shown
    found = json.loads(out.read_text())
    assert [each["env"] for each in found["reports"]] == [dated]
    assert list(found["missing"]) == [undated]
    assert main(["contamination", str(evaluated(tmp_path / "f", undated))]) == 2
    assert f"{undated} has a known year" in capsys.readouterr().err


def test_a_year_in_which_all_was_solved_has_an_interval(tmp_path: Path) -> None:
    found = report(evaluation(tmp_path / "e", lambda year, number: float(year <= 2020)), "--cutoff", "2020")
    year = found["years"]["2016"]  # type: ignore[index]
    assert year["mean"] == year["high"] == 1
    assert year["low"] < 0.9
    gap = found["gap"]["difference"]  # type: ignore[index]
    assert gap["mean"] == 1
    assert 0.8 < gap["low"] < 1


def test_a_probe_that_no_server_answers_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = tmp_path / "tasks.jsonl"
    text = "Find it. " + " ".join(f"word{n}" for n in range(60))
    tasks.write_text(json.dumps({"prompt": text, "answer": 2, "year": 2020, "problem_number": 1}) + "\n")
    with serving("openai", otherwise=speaking(lambda call: "x")) as fake:
        spec = json.dumps({"name": f"openai:m@{fake.url}", "wait_for_server": False})
        arguments = ["--model", spec, "--tasks", str(tasks), "--sandbox", "null"]
        assert main(["eval", ENV, *arguments, "--out", str(tmp_path / "e")]) == 0
    assert main(["contamination", str(tmp_path / "e"), "--probe"]) == 0
    shown = capsys.readouterr().out
    assert f"{ENV}: success" in shown
    assert "--probe of mappa/AIME-v0: openai:m" in shown


def test_the_permutation_test_is_the_exact_one() -> None:
    """Against all permutations, and against scipy."""
    values, years = [1.0, 0.0, 1.0, 0.0, 0.5, 1.0, 0.0], [7, 3, 5, 1, 4, 6, 2]
    found = float(np.dot(values, years))
    every = [np.dot(order, years) >= found - 1e-12 for order in itertools.permutations(values)]
    assert association_p(values, years) == pytest.approx(np.mean(every), abs=0.01)
    one, two = [0.2, 0.9, 0.8, 0.7], [0.1, 0.3, 0.2, 0.6, 0.4]
    theirs = stats.permutation_test(
        (one, two), lambda a, b: np.mean(a) - np.mean(b), alternative="greater", n_resamples=np.inf
    )
    ours = association_p([*one, *two], [1.0] * 4 + [0.0] * 5)
    assert ours == pytest.approx(theirs.pvalue, abs=0.01)


def test_within_strata_what_differs_between_them_does_not_count() -> None:
    strata = [0] * 20 + [1] * 20
    values, years = [1.0] * 20 + [0.0, 0.1] * 10, [2.0] * 20 + [1.0] * 10 + [0.9] * 10
    assert association_p(values, years) < 0.001
    assert association_p(values, years, strata=strata) > 0.3


def test_where_no_stratum_can_be_shuffled_there_is_no_p(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every problem number occurs once, or its problems are of one year, or all were solved alike."""
    with pytest.raises(StatsError, match="nothing can be shuffled"):
        association_p([1.0, 0.0, 1.0, 1.0], [1.0, 2.0, 1.0, 2.0], strata=[0, 1, 2, 2])
    rows = [{"id": f"aime-{2000 + n}-I-{n}", "prompt": f"What is {n}?", "answer": "1"} for n in range(1, 9)]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    words = ["--model", "trivial:first-number", "--tasks", str(tmp_path / "t.json"), "--sandbox", "null"]
    assert main(["eval", ENV, *words, "--out", str(tmp_path / "e")]) == 0
    capsys.readouterr()
    document = tmp_path / "x.json"
    assert main(["contamination", str(tmp_path / "e"), "--cutoff", "2004", "--json", str(document)]) == 0
    said = capsys.readouterr().out
    assert said.count("cannot be tested: among tasks of one problem number") == 2
    assert "p = " not in said
    (report,) = json.loads(document.read_text())["reports"]
    assert (report["p"], report["gap"]["p"]) == (None, None)
    assert report["untested"] == report["gap"]["untested"] != ""


def test_under_the_null_hypothesis_p_is_uniform() -> None:
    rng = np.random.default_rng(1)
    found = [association_p(rng.random(24), rng.random(24), resamples=199) for _ in range(300)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


@pytest.mark.parametrize(
    ("values", "against"),
    [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, 1.0], [1.0, 2.0]), ([1.0, np.nan], [1, 2])],
)
def test_what_cannot_be_tested_is_refused(values: list[float], against: list[float]) -> None:
    with pytest.raises(StatsError):
        association_p(values, against)


def test_a_continuation_must_be_verbatim() -> None:
    text = "Let $x$ be a number. " + " ".join(f"word{n}" for n in range(40))
    halves = cut(text)
    assert halves is not None
    first, rest = halves
    assert text.startswith(first)
    assert continues(rest, first, rest)
    assert continues(f"... {rest}", first, rest)
    assert continues(f"{first}\n{rest}", first, rest)
    assert not continues(rest[:50], first, rest)
    assert not continues(rest.replace("word22", "words22"), first, rest)
    assert not continues("", first, rest)
    assert cut("What is 2 + 2?") is None


def test_the_probe_tells_a_model_that_knows_the_texts_from_one_that_does_not(tmp_path: Path) -> None:
    """The model has read the tasks up to 2020."""
    tasks = tmp_path / "tasks.jsonl"
    rows = [
        {
            "prompt": f"In {year}, problem {n}: " + " ".join(f"term{year}{n}x{k}" for k in range(30)),
            "answer": 7,
            "year": year,
            "problem_number": n,
        }
        for year in (2019, 2020, 2021, 2022)
        for n in range(1, 7)
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = [str(row["prompt"]) for row in rows if int(str(row["year"])) <= 2020]

    def speak(call: Call) -> str:
        asked = call.text.rpartition("\n\n")[2].strip()
        known = next((text for text in read if asked and text.startswith(asked)), None)
        return "I think that it goes on differently." if known is None else known.removeprefix(asked)

    with serving("openai", otherwise=speaking(speak)) as fake:
        arguments = ["--model", f"openai:m@{fake.url}", "--tasks", str(tasks), "--sandbox", "null"]
        assert main(["eval", ENV, *arguments, "--out", str(tmp_path / "e")]) == 0
        out = tmp_path / "report.json"
        command = ["contamination", str(tmp_path / "e"), "--probe", "--cutoff", "2020", "--json", str(out)]
        assert main(command) == 0
        assert fake.calls[-1].body["temperature"] == 0
    plain, probed = json.loads(out.read_text())["reports"]
    assert plain["what"] == "success"
    assert probed["what"] == "verbatim continuations"
    assert (probed["gap"]["before"]["mean"], probed["gap"]["after"]["mean"]) == (1.0, 0.0)
    assert probed["gap"]["p"] < 0.01


def test_the_probe_needs_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"prompt": "1+1?", "answer": 2, "year": 2020, "problem_number": 1}) + "\n")
    arguments = [
        "--model",
        "constant:x",
        "--tasks",
        str(tasks),
        "--sandbox",
        "null",
        "--out",
        str(tmp_path / "e"),
    ]
    assert main(["eval", ENV, *arguments]) == 0
    assert main(["contamination", str(tmp_path / "e"), "--probe"]) == 2
    assert "one model behind a server" in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_file(), reason="the AIME problems are not here")
def test_real_contests_have_years_and_numbers(tmp_path: Path) -> None:
    arguments = ["--model", "trivial:last-number", "--tasks", str(DATA), "--sandbox", "null"]
    assert main(["eval", ENV, *arguments, "--out", str(tmp_path / "e")]) == 0
    found = report(tmp_path / "e", "--cutoff", "2010")
    assert (found["unknown"], found["strata"]) == (0, True)
    assert len(found["years"]) == 42  # type: ignore[arg-type]
