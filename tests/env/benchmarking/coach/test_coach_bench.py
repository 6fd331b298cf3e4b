"""The coach benchmark: faults are confirmed, culprits known, baselines and intervals computed rightly."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

import fake_llm as fakes
from mappa_env.benchmarking.coach import blamed, measures
from mappa_env.benchmarking.coach.faults import MUTATIONS, SCRIPTED, Fault, faults
from mappa_env.benchmarking.coach.figure import draw
from mappa_env.benchmarking.coach.layouts import EXTRAS, PLAIN, Layout, layouts
from mappa_env.benchmarking.coach.play import play
from mappa_env.benchmarking.coach.rows import Judged, Play, Row, RowFile
from mappa_env.benchmarking.coach.running import NO_FLIP, Bench, Case, Options
from mappa_env.benchmarking.coach.summary import summary
from mappa_env.cards import Card
from mappa_env.cli import main
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError
from mappa_env.registration import find_card
from mappa_env.scripted import load_script

pytestmark = pytest.mark.filterwarnings("ignore::mappa_env.errors.SandboxWarning")
MATH = Options("rubric", "calculator", episodes=1)


@pytest.fixture(scope="module")
def math_card() -> Card:
    return find_card("mathchat")


@pytest.fixture(scope="module")
def math_rows(math_card: Card) -> list[Row]:
    return Bench(math_card, MATH, RowFile(None, {})).run()


# -- real runs --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_case_that_counts_is_repaired_by_its_one_action(math_rows: list[Row]) -> None:
    counted = [row for row in math_rows if not row.discarded]
    assert len(counted) > 20
    for row in counted:
        assert row.clean is not None
        assert row.faulty is not None
        assert row.clean.success
        assert not row.faulty.success
        guilty = row.faulty.actions[row.step]
        assert (guilty.agent, guilty.turn) == (row.agent, row.turn)
    assert {row.source for row in counted} == {"script", "mutation"}
    assert any(row.turn > 0 for row in counted)


def test_a_fault_that_does_not_flip_is_discarded(math_rows: list[Row]) -> None:
    """A coder that leaves its report out does no harm: the verifier reads what the code printed."""
    silent = [row for row in math_rows if row.fault == "silent" and row.agent == "coder_0"]
    assert silent
    assert {row.discarded for row in silent} == {NO_FLIP}
    assert all(row.faulty is None for row in silent)


def test_the_rubric_names_the_culprit_of_mathematics(math_rows: list[Row], math_card: Card) -> None:
    found = summary(math_rows, math_card.team.names)
    assert found.accuracy["all"]["coach"].agent.value == 1.0
    assert found.accuracy["all"]["coach"].turn.value >= 0.9
    for name in ("first", "last", "random"):
        assert found.accuracy["all"][name].agent.value == pytest.approx(1 / 3)
    assert found.scores.gap.value > 5
    assert found.scores.strictly_lowest.value >= 0.95
    assert found.lowest.keys() == found.accuracy.keys()
    assert found.scores.margin_median >= 3
    assert min(_kept(math_rows, "coder_0")) >= 0.6
    # The verifier's script copies the coder's value, also where the plan that it sees shows it wrong: that
    # keeps 40 %. It keeps less where it answers with a value that nobody handed on, an error of its own.
    kept = _kept(math_rows, "verifier_0")
    assert sum(part >= 0.4 for part in kept) >= 0.9 * len(kept)
    assert found.scores.false_alarm.value == 0
    assert found.calibration.auc > 0.9
    assert found.cost.calls == 0
    assert found.stability.actions == 0


def _kept(rows: list[Row], victim: str) -> list[float]:
    """The parts of its clean scores that an agent keeps after another one's fault."""
    found = []
    for row in rows:
        if row.faulty is None or row.clean is None or row.agent == victim:
            continue
        clean = {(each.agent, each.turn): each.score for each in row.clean.actions}
        for action in row.faulty.actions[row.step + 1 :]:
            before = clean.get((action.agent, action.turn))
            if action.agent == victim and action.score is not None and before:
                found.append(action.score / before)
    return found


def test_the_figure_is_drawn(math_rows: list[Row], math_card: Card, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw("MathChat", summary(math_rows, math_card.team.names), tmp_path / "coach.png")
    assert (tmp_path / "coach.png").stat().st_size > 10_000


@pytest.mark.slow
def test_workers_and_order_change_nothing(math_rows: list[Row], math_card: Card) -> None:
    options = dataclasses.replace(MATH, workers=1)
    alone = {row.key: row for row in Bench(math_card, options, RowFile(None, {})).run()}
    together = {row.key: row for row in math_rows}
    assert alone
    assert all(together[key] == row for key, row in alone.items())


def test_a_limit_keeps_the_agents_level(math_card: Card) -> None:
    rows = Bench(math_card, dataclasses.replace(MATH, limit=9, workers=1), RowFile(None, {})).run()
    counted = [row.agent for row in rows if not row.discarded]
    assert sorted(counted) == sorted(["solver_0", "coder_0", "verifier_0"] * 3)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, pytest.param(3, marks=pytest.mark.large)])
def test_files_and_code_of_a_data_team(limit: int) -> None:
    card = find_card("dsbench")
    rows = Bench(card, Options("rubric", episodes=1, limit=limit), RowFile(None, {})).run()
    found = summary([row for row in rows if row.discarded or row.kind in ("file", "code")], card.team.names)
    assert found.counted >= 1
    assert found.accuracy["all"]["coach"].agent.value == 1.0
    assert found.accuracy["all"]["coach"].turn.value >= 0.5  # of a handful; docs/coach.md has more


def test_a_repair_is_tried_even_where_others_stumble(math_card: Card) -> None:
    """The extra turns are in the clean twin too, and are not what is repaired."""
    episode = Episode(math_card, coach="off", sandbox="calculator")
    layout = Layout("coder_0 stumbles first", "coder_0", before=("stumble",))
    try:
        assert play(episode, episode.tasks.ids[0], 1, layout) is None
        runs = [a.tool.status for a in episode.actions if a.tool is not None]
        assert runs == ["error", "ok"]
        assert episode.outcome is not None
        assert episode.outcome.success
        task = episode.tasks.ids[0]
        fault = Fault("coder_0", 0, "wrong", "value", "mutation", "```python\nprint(-1)\n```")
        assert play(episode, task, 1, layout, fault) == 2
        assert not episode.outcome.success
    finally:
        episode.close()


def test_no_mutation_is_dead() -> None:
    made = set()
    for name, sandbox in (("mathchat", "calculator"), ("dsbench", "local")):
        card = find_card(name)
        episode = Episode(card, coach="off", sandbox=sandbox)
        try:
            play(episode, episode.tasks.ids[0], 0)
            found = faults(card, episode.task, 0, episode.actions)
        finally:
            episode.close()
        good = {(action.agent, action.turn): action.action for action in episode.actions}
        assert all(fault.text != good[fault.agent, fault.own] for fault in found)
        assert len({(fault.agent, fault.own, fault.text) for fault in found}) == len(found)
        made |= {fault.name for fault in found if fault.source == "mutation"}
        known = {name for names in load_script(str(card.scripted))[0].faults.values() for name in names}
        assert known <= set(SCRIPTED)
    assert set(MUTATIONS) - made <= {
        "wrong_comparison",
        "other_operator",
    }  # texts that this task may not have


# -- layouts ----------------------------------------------------------------------------------------------


def test_layouts_say_where_the_work_is() -> None:
    team = find_card("dsbench").team
    found = {layout.name: layout for layout in layouts(team, "modeler_0", 0)}
    assert set(found) >= {"plain", "modeler_0 looks first", "modeler_0 looks afterwards"}
    for layout in found.values():
        assert layout.slot("modeler_0", layout.turn("modeler_0", 0)) == 0
    after = found["modeler_0 looks afterwards"]
    assert [after.slot("modeler_0", turn) for turn in range(3)] == [0, "look", 1]
    assert after.slot("analyst_0", 1) == 1
    assert PLAIN.turn("modeler_0", 1) == 1
    assert "```python" in EXTRAS["look"]
    sprint = list(layouts(find_card("dsbench_sprint").team, "modeler_0", 0))
    assert sprint == [PLAIN]  # one turn each: no room for more


# -- arithmetic -------------------------------------------------------------------------------------------


def row(agent: str, step: int, ran: list[str | None], named: int | None) -> Row:
    agents = ["solver_0", "coder_0", "coder_0", "verifier_0"]
    actions = tuple(Judged(a, 0, r, "ok", 5.0) for a, r in zip(agents, ran, strict=True))
    faulty = Play(False, 0.0, None if named is None else agents[named], named, named, actions)
    clean = Play(True, 1.0, None, None, None, actions)
    key = f"{agent}/{step}/{ran}/{named}"
    return Row(key, "t", 0, "plain", agent, 0, step, "f", "code", "script", "", faulty, clean)


def test_baselines_and_weights() -> None:
    rows = [
        row("solver_0", 0, [None, "ok", None, None], 0),
        row("solver_0", 0, [None, "error", "error", None], 1),
        row("coder_0", 2, [None, "error", "timeout", None], 2),
    ]
    found = blamed.accuracies(rows, agents=3)
    shares = {name: (pair.agent.value, pair.turn.value) for name, pair in found.items()}
    assert shares["coach"] == (0.75, 0.75)  # (1/2 + 1) / 2: agents count alike
    assert shares["tracing"] == shares["coach"]
    assert shares["first"] == (0.5, 0.5)
    assert shares["last"] == (0.0, 0.0)
    assert shares["first failing"] == (0.5, 0.0)
    assert shares["last failing"] == (0.5, 0.5)
    assert shares["random"] == pytest.approx((1 / 3, 1 / 4))


def test_intervals_ranks_and_bins() -> None:
    assert measures.wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)
    assert measures.proportion([1, 1, 1]).high == 1.0
    assert math.isnan(measures.proportion([]).value)
    weighted = measures.proportion([1, 0, 0], [2, 1, 1])
    assert weighted.value == 0.5
    assert (weighted.low, weighted.high) == pytest.approx(measures.wilson(0.5, 16 / 6))
    assert measures.auc([1, 2, 2, 3], [False, False, True, True]) == 0.875
    assert math.isnan(measures.auc([1, 2], [True, True]))
    assert measures.spearman([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    assert math.isnan(measures.spearman([1, 1], [1, 2]))
    bins, error = measures.reliability([0.1, 0.1, 1.0, 0.9], [False, False, True, False])
    assert [(b.n, b.success) for b in bins] == [(2, 0.0), (2, 0.5)]
    assert error == pytest.approx(0.5 * 0.1 + 0.5 * 0.45)
    assert measures.pooled_sd([[1, 3], [2, 2], [5]]) == pytest.approx(1.0)
    assert measures.percentile([], 50) != measures.percentile([], 50)


# -- resuming ---------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_where_it_was(
    math_card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, options = tmp_path / "cases.jsonl", dataclasses.replace(MATH, limit=12, workers=1)

    def stop(counted: int, discarded: int, total: int) -> None:
        if counted == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Bench(math_card, options, RowFile(path, {"env": "m"})).run(stop)
    before = RowFile(path, {"env": "m"}).rows
    assert len(before) >= 5
    path.write_text(path.read_text() + '{"key": "half a li')
    tried = []
    fresh = Bench._fresh_row

    def counting(self: Bench, case: Case) -> Row:
        tried.append(case.key)
        return fresh(self, case)

    monkeypatch.setattr(Bench, "_fresh_row", counting)
    rows = Bench(math_card, options, RowFile(path, {"env": "m"})).run()
    assert sum(not row.discarded for row in rows) == 12
    assert not set(tried) & set(before)
    assert RowFile(path, {"env": "m"}).rows.keys() == {row.key for row in rows}
    with pytest.raises(OptionError, match="another run"):
        RowFile(path, {"env": "other"})
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(OptionError, match="cannot be read"):
        RowFile(path, {"env": "m"})


# -- the command, and a language model --------------------------------------------------------------------


def test_the_command_with_a_language_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scripted judge blames the solver always, and never gives the same grade twice in a row."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-tests")
    with fakes.serving("openai", otherwise=fakes.answering(blame="solver_0")) as fake:
        fake.grade = lambda call, name: len(fake.calls) % 5
        spec = {
            "name": f"openai:m@{fake.url}",
            "cache": str(tmp_path / "c"),
            "price": {"input": 1, "output": 2},
        }
        args = ["coach", "bench", "--coach", json.dumps(spec), "--sandbox", "calculator", "--episodes", "1"]
        more = [
            "--limit",
            "3",
            "--controls",
            "0",
            "--repeats",
            "2",
            "--out",
            str(tmp_path / "o"),
            "--json",
            str(tmp_path / "j"),
        ]
        assert main([*args, *more]) == 0
        calls = len(fake.calls)
        assert main([*args, *more]) == 0  # all is in the file
        assert len(fake.calls) == calls
    found = json.loads((tmp_path / "j").read_text())
    assert found["counted"] == 3
    assert found["accuracy"]["all"]["coach"]["agent"]["value"] == pytest.approx(1 / 3)
    assert found["stability"]["sd"] > 0
    assert found["cost"]["verdicts"] >= found["cost"]["calls"] == calls  # equal beginnings are in the cache
    assert found["cost"]["dollars"] == pytest.approx(calls * (1000 + 2 * 150) / 1e6)
    assert found["cost"]["latency_p95_s"] >= found["cost"]["latency_p50_s"] >= 0
    assert "Culprit named" in capsys.readouterr().out


def test_a_run_that_must_stop_reports_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-tests")
    with fakes.serving("openai") as fake:
        fake.script = [fakes.ok] * 12
        fake.otherwise = fakes.failing(401)
        args = ["--coach", f"openai:m@{fake.url}", "--sandbox", "calculator", "--episodes", "1"]
        out = tmp_path / "o"
        assert main(["coach", "bench", *args, "--workers", "1", "--out", str(out)]) == 2
    assert "401" in (printed := capsys.readouterr()).err
    assert "faults are valid" in printed.out
    assert len(out.read_text().splitlines()) >= 2


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["--episodes", "0"], "--episodes: 0 must be at least 1"),
        (["--coach", "{name: [}"], "YAML"),
        (["--coach", "{budget: 1}"], "needs a name"),
        (["nothing"], "neither an id"),
    ],
)
def test_what_is_not_offered(args: list[str], match: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coach", "bench", *args]) == 2
    assert match in capsys.readouterr().err
