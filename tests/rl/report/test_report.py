"""Reports: pairing, pooling, one safe file."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mappa_env.trace.record import TraceStore
from mappa_rl.config import Config, load_config
from mappa_rl.errors import RunError
from mappa_rl.evaluation.arms import compare
from mappa_rl.evaluation.faults import demonstrated_faults
from mappa_rl.evaluation.results import load_results, save_results
from mappa_rl.evaluation.summary import Summary, read_summary
from mappa_rl.report.combine import combine
from mappa_rl.report.figures import TopicRate, before_after, curves, smooth
from mappa_rl.report.groups import group_runs
from mappa_rl.report.html import build_comparison, build_report
from mappa_rl.report.made import duration
from mappa_rl.report.rows import comparisons, headline
from mappa_rl.report.runs import find_runs, read_run
from mappa_rl.report.settings import changed
from mappa_rl.report.showcase import showcase
from mappa_rl.report.style import svg
from synthetic_run import AGENTS, HOSTILE, TOPICS, make_run, results, summary, trajectory

VOID = {"meta", "br", "img", "hr", "input", "link"}


class Page(HTMLParser):
    """Checks that tags are balanced and collects what a browser would act on."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((name, value or "") for name, value in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def three_seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seeds")
    for seed in (0, 1, 2):
        make_run(out / f"seed-{seed}", seed=seed, best=0.4 if seed < 2 else 0.6)
    return out


@pytest.fixture(scope="module")
def page(three_seeds: Path) -> str:
    return build_report(three_seeds).read_text(encoding="utf-8")


def test_the_page_is_whole_and_reaches_for_nothing_outside(page: str) -> None:
    parsed = Page(page)
    assert not {"script", "link", "iframe", "object", "img"} & set(parsed.tags)
    links = [value for name, value in parsed.attributes if name in ("src", "href")]
    local = re.compile(r"#|seed-\d/(viewer\.html(#/episode\?key=[\w-]+)?|report\.html)$")
    assert [value for value in links if not local.match(value)] == []
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "default-src 'none'" in page
    assert page.count("<svg") == 1 + 3 + 4 + 4 + 1  # success, agents, topics, health, held-out topics
    assert not re.search(r"url\((?!#)", page)


def test_agents_write_text_and_never_markup(page: str) -> None:
    shown = Page(page).text
    assert HOSTILE.replace("\u202e", "\\u202e") in shown
    assert "<script" not in page
    assert "\u202e" not in page


def test_ids_of_figures_do_not_collide(page: str) -> None:
    ids = re.findall(r'<clipPath id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 5


def test_the_page_says_what_it_must(page: str) -> None:
    shown = " ".join(Page(page).text.split())
    for said in (
        "errs by habit",
        "for 9 of the 12 pairs of topic and role",
        "wrong formula",
        "best T=0.4, 0.6",
        "more than any temperature could have given",
        "seed 2: T=1.0 30 %, T=0.6 50 %",
        "seeds 0, 1, 2",
        "failed before, succeeds after",
        "succeeded before, fails after",
        "coach 10.0 / 10",
        "solver_0 turn 0",  # as everywhere else
        "96 s",
        "torch",
        "kl_coef: 0.01",
        "Which agent caused the failures",
        "Change in held-out success, T=1.0",
        "on 240 paired episodes",
        "over the 3 seeds:",
        "before (6 of 12 failed)",
        "settings that differ from their defaults, first run",
        "commit",
    ):
        assert said in shown, said
    for name in (*TOPICS, *AGENTS):
        assert name in shown


def test_figures_show_every_agent_and_topic_and_escape_their_names() -> None:
    line = [[(1, 0.1), (2, float("nan")), (3, 0.4)]]
    chart = curves({"<script>$x$</script>": {"_hidden & co": line, "b": line}})
    assert list(chart.labels) == ["_hidden & co", "b"]
    markup = svg(chart.figures[0], "x")
    assert "<script" not in markup
    assert "&lt;script&gt;$x$" in markup
    assert "http" not in markup
    rates = [TopicRate("a_b & $c$", 0.1, 0.5, 7)]
    assert "a_b &amp; $c$" in svg(before_after(rates), "y")
    assert svg(before_after(rates), "y") == svg(before_after(rates), "y")


def test_steps_are_whole_and_a_single_point_is_seen() -> None:
    (figure,) = curves({"a": {"b": [[(1, 0.1), (2, 0.4)]]}}).figures
    (axis,) = figure.axes
    assert all(tick == round(tick) for tick in axis.get_xticks())
    (figure,) = curves({"a": {"b": [[(2, 0.4)]]}}).figures
    assert figure.axes[0].lines[-1].get_marker() == "o"


def test_figures_take_their_colours_from_the_page(page: str) -> None:
    assert not re.search(r"(?:fill|stroke): #(?!0{6})", page.split("</style>", 1)[1])
    used = set(re.findall(r"var\((--\w+)", page))
    assert used <= set(re.findall(r"(--[\w-]+):", page))
    assert "prefers-color-scheme: dark" in page


def test_smoothing_keeps_short_curves_and_the_level_of_long_ones() -> None:
    assert smooth([(1, 0.0), (2, 1.0)]) == [(1, 0.0), (2, 1.0)]
    flat = [(i, float(i % 2)) for i in range(64)]
    assert all(abs(y - 0.5) < 0.2 for _, y in smooth(flat)[8:-8])


def test_pooled_and_single_rows(three_seeds: Path) -> None:
    rows = headline(group_runs([read_run(folder) for folder in find_runs([three_seeds])]))
    assert [(row.arm, row.seed) for row in rows] == [
        ("T=1.0", None),
        ("T=1.0", 0),
        ("T=1.0", 1),
        ("T=1.0", 2),
        ("best T=0.4, 0.6", None),
        ("best T=0.4", 0),
        ("best T=0.4", 1),
        ("best T=0.6", 2),
    ]
    pooled, singles = rows[0], rows[1:4]
    assert pooled.delta.n == sum(row.delta.n for row in singles) == 240
    assert pooled.before.mean == pytest.approx(sum(row.before.mean for row in singles) / 3)
    assert pooled.delta.mean == pytest.approx(pooled.after.mean - pooled.before.mean)
    for row in rows:
        assert row.delta.low < row.delta.mean < row.delta.high
    assert pooled.delta.high - pooled.delta.low < min(row.delta.high - row.delta.low for row in singles)


def test_pairs_are_paired() -> None:
    before, after = results("before", 1.0, 0, 0.3, 40), results("after", 1.0, 0, 0.8, 40)
    arm = compare(before, list(reversed(after)))
    assert arm.delta.mean == pytest.approx(arm.after.mean - arm.before.mean)
    same = compare(before, [*before])
    assert (same.delta.low, same.delta.mean, same.delta.high) == (0.0, 0.0, 0.0)
    with pytest.raises(RunError, match="39 after, 39 in common"):
        compare(before, after[1:])
    with pytest.raises(RunError, match="do not pair up"):
        compare([*before, before[0]], after)
    with pytest.raises(RunError, match="is on task 'eval-00000' before"):
        compare(before[:1], [dataclasses.replace(after[0], task_id="another")])


def test_summary_has_the_published_form(tmp_path: Path) -> None:
    config = make_run(tmp_path)
    written = json.loads((tmp_path / "summary.json").read_text())
    assert set(written["arms"]) == {"mappa/MathChat-v0 T=1.0", "mappa/MathChat-v0 best T=0.4"}
    arm = written["arms"]["mappa/MathChat-v0 T=1.0"]
    for side in ("before", "after", "delta"):
        assert set(arm[side]) == {"mean", "low", "high", "n"}
    assert written["seeds"] == [0]
    assert written["episodes"] == 24 * 128
    assert written["wall_seconds"] == pytest.approx(248.5)
    assert written["versions"]["torch"].startswith("2.")
    assert written["config"]["run"]["out"] == str(tmp_path)
    assert load_config(tmp_path / "config.yaml") == config
    assert read_summary(tmp_path) == Summary.model_validate(written)
    (tmp_path / "summary.json").write_text('{"arms": {}}')
    with pytest.raises(RunError, match="is not a summary of this version"):
        read_summary(tmp_path)


def test_summary_of_one_best_temperature_that_is_also_fixed(tmp_path: Path) -> None:
    config = make_run(tmp_path, best=1.0)
    made = summary(tmp_path, config, best=1.0)
    assert set(made.arms) == {"mappa/MathChat-v0 T=1.0", "mappa/MathChat-v0 best T=1.0"}


def test_summary_of_several_seeds(three_seeds: Path) -> None:
    together = combine([read_run(folder) for folder in find_runs([three_seeds])])
    assert together.seeds == [0, 1, 2]
    assert together.arms["mappa/MathChat-v0 T=1.0"].delta.n == 240
    assert together.arms["mappa/MathChat-v0 best T=0.4, 0.6"].best
    assert together.episodes == 3 * 24 * 128
    assert together.phases["training"] == pytest.approx(3 * 141.0)


def test_faults_of_the_demonstrations_are_those_of_the_script() -> None:
    faults = demonstrated_faults("mathchat", ["linear", "modular"])
    habits = [fault for fault in faults if fault.topic != "*"]
    assert {fault.topic for fault in habits} == {"linear"}
    assert {fault.role for fault in faults if fault.topic == "*"} == {"solver", "coder", "verifier"}
    assert all(0 < fault.probability <= 1 for fault in faults)


def test_shapings_against_each_other(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path / f"outcome-seed-{seed}", seed=seed, shaping="outcome", gain=0.2)
        make_run(tmp_path / f"process-seed-{seed}", seed=seed, shaping="process", gain=0.5)
    runs = [read_run(folder) for folder in find_runs([tmp_path])]
    (found,) = comparisons(group_runs(runs))
    assert (found.first, found.second) == ("process", "outcome")
    assert [(row.arm, row.seed) for row in found.rows] == [("T=1.0", None), ("best T=0.4", None)]
    assert found.rows[0].delta.mean < 0
    with pytest.raises(RunError, match=r"differ in env\.shaping.*`mappa-rl compare"):
        build_report(tmp_path)
    path = build_comparison([tmp_path])
    assert path == tmp_path / "comparison.html"
    page = path.read_text()
    shown = " ".join(Page(page).text.split())
    assert "4 runs in 2 groups by env.shaping" in shown
    assert "over seeds" in shown
    assert "process (4 of 8 failed)" in shown
    assert 'href="outcome-seed-0/viewer.html#/episode?key=' in page
    assert "mappa/MathChat-v0 outcome T=1.0" in combine(runs).arms


@pytest.mark.slow
def test_a_comparison_leaves_the_reports_of_its_runs_alone(tmp_path: Path) -> None:
    for name, shaping in (("a", "process"), ("b", "outcome")):
        make_run(tmp_path / name, shaping=shaping)
    own = build_report(tmp_path / "a").read_text()
    with pytest.raises(RunError, match="needs two runs or more"):
        build_comparison([tmp_path / "a"])
    assert build_comparison([tmp_path / "a", tmp_path / "b"]) == tmp_path / "comparison.html"
    assert (tmp_path / "a" / "report.html").read_text() == own


@pytest.mark.slow
def test_an_unfinished_run_is_reported_as_such(tmp_path: Path) -> None:
    make_run(tmp_path / "a", finished=False)
    shown = Page(build_report(tmp_path / "a").read_text()).text
    assert "Unfinished" in shown
    with pytest.raises(RunError, match="unfinished"):
        combine([read_run(tmp_path / "a")])


def test_a_run_that_has_only_begun_is_reported_too(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(load_config("demo").dump())
    shown = Page(build_report(tmp_path).read_text()).text
    for said in ("No paired evaluations yet", "No training steps yet", "No trajectories on record"):
        assert said in shown


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        build_report(tmp_path)


def test_results_are_read_back_and_replaced_whole(tmp_path: Path) -> None:
    rows = results("before", 0.5, 3, 0.4, 10)
    path = save_results(tmp_path, rows)
    save_results(tmp_path, rows[:4])
    assert load_results(tmp_path) == {("before", 0.5): rows[:4]}
    with pytest.raises(ValueError, match="one phase and temperature"):
        save_results(tmp_path, [*rows, *results("after", 0.5, 3, 0.4, 1)])
    path.write_text('{"phase": "before"}\n')
    with pytest.raises(RunError, match="is not an evaluation"):
        load_results(tmp_path)


def test_showcase_picks_gains_losses_and_what_stayed(tmp_path: Path) -> None:
    wins = {"before": (0, 0, 0, 0, 1, 0, 1), "after": (1, 1, 1, 1, 0, 0, 1)}
    for phase, won in wins.items():
        store = TraceStore(tmp_path / "traces" / f"{phase}.jsonl")
        for index, success in enumerate(won):
            store.append(trajectory(index, bool(success)))
        store.close()
    changes = [pair.change for pair in showcase(tmp_path, tmp_path / "report.html")]
    assert changes == [
        "failed before, succeeds after",
        "failed before, succeeds after",
        "failed before, succeeds after",
        "succeeded before, fails after",
        "failed before, fails after",
        "succeeded before, succeeds after",
    ]
    assert showcase(tmp_path / "nowhere", tmp_path / "report.html") == []


def test_settings_that_differ_from_their_defaults_say_who_set_them() -> None:
    config = load_config("demo", ["algo.kl_coef=0.5", "out=runs/x"])
    found = {each.key: each for each in changed(config, ["mappa-rl train demo algo.kl_coef=0.5 out=runs/x"])}
    assert (found["algo.kl_coef"].value, found["algo.kl_coef"].given) == ("0.5", True)
    assert found["algo.kl_coef"].default == str(Config().algo.kl_coef)
    assert found["run.out"].given
    assert not found["warmstart.batch_size"].given
    assert "run.seed" not in found


@pytest.mark.parametrize(("seconds", "text"), [(75, "75 s"), (750, "12 min 30 s"), (11100.4, "3 h 05 min")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
