"""The viewer's page in a browser: views, keys, quotes, narrow screens and access."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mappa_env.trace import Learned, Traces, TraceStore
from mappa_env.trace.appending import Appender
from mappa_env.types import (
    Attribution,
    Criterion,
    FileChange,
    Link,
    Outcome,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Verdict,
)
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.exporting import export
from paths import ROOT
from recorded import recorded
from served import served

AXE = ROOT / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
METRICS = '{"step": 1, "success": 0.25, "reward/maker_0": 3.0, "time/generate": 2.0, "time/step": 3.0}\n'
LONG = "\n".join(f"line {number}" for number in range(200))


def episode(success: bool, seed: int, task: str = "sum") -> Trajectory:
    maker = recorded(
        "maker_0",
        messages=({"role": "user", "content": LONG},),
        answer=f"I write it.\n```python\n# {'x' * 300}\nopen('a.csv', 'w').write('{seed}')\n```",
        code="open('a.csv', 'w')",
        tool=ToolResult(
            "ok", 0, f"saved  7\nrows {'y' * 400}", "", files=(FileChange("a.csv", "created", 10, "0"),)
        ),
        verdict=Verdict(
            "ok",
            9.0 if success else 2.0,
            "It wrote the file.",
            (
                Criterion("honest", 1.0, 0.5, "it says so", "saved 7 rows"),
                Criterion("whole", 0.2, 0.5, "not so", "this is nowhere"),
            ),
            coach="rubric",
        ),
        reward=9.0 if success else 2.0,
    )
    reader = recorded(
        "reader_0",
        step=1,
        messages=({"role": "user", "content": "read it"},),
        thinking="let me see",
        answer="```python\nprint(open('a.csv').read())\n```",
        code="print(open('a.csv').read())",
        tool=ToolResult("error", 1, "", "ValueError: bad"),
        verdict=Verdict("abstain", None, "cannot say"),
        reward_valid=False,
    )
    return Trajectory(
        "mappa/Made-v0",
        Task(task, f"Add them up. {LONG}", "exact_match", topic="sums"),
        seed,
        (maker, reader),
        Outcome(float(success), success, "ok", "the sum is wrong"),
        attribution=None
        if success
        else Attribution(True, (1.0, 0.0), "tracing", (Link(1, "printed it"), Link(0, "wrote a wrong file"))),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text("env: {id: mappa/MathChat-v0}\n")
    (folder / "metrics.jsonl").write_text(METRICS + METRICS.replace('"step": 1', '"step": 2'))
    (folder / "summary.json").write_text('{"phases": {"training": 6.0, "warm start": 3.0}}')
    for phase, success in (("before", False), ("after", True)):
        store = TraceStore(folder / "traces" / f"{phase}.jsonl", about={"phase": phase})
        for seed in range(30):
            store.append(episode(success, seed, f"sum-{seed}"))
        store.close()
    writer = Appender(folder / "traces" / "train" / "step-000001.jsonl", about={"phase": "train", "step": 1})
    key = writer.append(episode(False, 1, "sum-1"))
    writer.learned(key, [Learned(0, "maker_0", 1, 2.0, True, 4.5, -0.75)])
    writer.close()
    return folder


@pytest.fixture(scope="module")
def url(run: Path) -> Iterator[str]:
    with served(run) as server:
        yield server.url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    found = browser.new_page(viewport={"width": 1280, "height": 800})
    found.goto(url)
    found.wait_for_selector("a.row")
    yield found
    found.close()


def at(page: Any, hash: str, selector: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", hash)
    page.wait_for_selector(selector)


def shows(page: Any, count: str) -> None:
    """Wait until the list has so many episodes."""
    page.locator(".figures b", has_text=count).wait_for()


VIEWS = {
    "#/episodes": "a.row",
    "#/episode/0": "[data-episode='0'] article",
    "#/compare/0/31": ".pair",
    "#/strata": ".panel",
    "#/training?step=2": ".curve",
}


def test_the_filter_finds_episodes_frames_actions_and_explains_a_mistake(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("agent=maker_0 score<4 phase=before")
    shows(page, "30 episodes")
    assert page.locator(".square.hit").first.get_attribute("title").startswith("maker_0, turn 0: 2.0")
    page.fill("#filter", "status=abstain tool=error sum-7 ended=ok success=true")
    shows(page, "1 episode")
    page.fill("#filter", "colour=red")
    page.wait_for_selector(".figures .problem")
    assert "There is no field colour; choose from agent," in page.inner_text(".figures .problem")
    page.fill("#filter", "score<low")
    page.locator(".figures .problem", has_text="score< needs a number, not low.").wait_for()


def test_a_reader_who_goes_on_is_not_called_back_to_the_list(page: Any) -> None:
    page.evaluate(
        "() => { const filter = document.getElementById('filter'); filter.value = 'sum'; "
        "filter.dispatchEvent(new Event('input', {bubbles: true})); location.hash = '#/episode/0'; }"
    )
    page.wait_for_timeout(1000)
    assert page.locator("[data-episode='0']").count() == 1


def test_an_episode_can_be_read_with_the_keyboard_alone(page: Any) -> None:
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-episode='2']")
    page.keyboard.press("j")
    page.wait_for_selector("article.selected")
    page.keyboard.press("n")
    page.wait_for_selector("[data-episode='3']")
    page.keyboard.press("u")
    page.wait_for_selector("a.row.selected")
    assert page.inner_text("a.row.selected span") == "3"
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    page.wait_for_selector(".curve")


def test_a_failure_leads_to_its_cause_and_a_quote_to_its_place(page: Any) -> None:
    at(page, "#/episode/0", "[data-episode='0']")
    assert "wrote a wrong file" in page.inner_text(".blame li.cause")
    assert page.locator(".node.guilty").count() == 1
    page.click(".blame li.cause a")
    page.wait_for_selector("article.selected >> text=maker_0")
    page.click(".quote:not(.lost)")
    page.wait_for_selector("mark.active")
    assert page.inner_text("mark.active").split() == ["saved", "7", "rows"]
    assert "not in the evidence" in page.inner_text(".quote.lost")
    assert page.locator(".thread").count() == 1
    assert "from action 0" in page.inner_text("article:nth-of-type(2) .files")


def test_calls_of_tools_stand_in_the_card_and_can_be_quoted(browser: Any, tmp_path: Path) -> None:
    calls = (
        ToolCall("search", {"query": "tall towers"}, "ok", "the tower is 5 m high", "server"),
        ToolCall("search", {"query": "small towers"}, "timeout"),
    )
    verdict = Verdict(
        "ok", 5.0, "a; b", (Criterion("x", 1.0, 1.0, "a", "tower is 5 m"), Criterion("y", 0.0, 1.0, "b"))
    )
    judged = dataclasses.replace(verdict, corrected_action="I search twice.")
    made = dataclasses.replace(
        episode(True, 4720721261117928063),
        actions=(
            recorded(calls=calls, verdict=judged),
            recorded(step=1, turn=1, verdict=Verdict("suspect", 9.0)),
        ),
    )
    store = TraceStore(tmp_path / "t.jsonl")
    store.append(made)
    store.append(dataclasses.replace(made, seed=made.seed + 1))
    store.close()
    with served(store.path) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(server.url)
        page.fill("#filter", "tool=timeout score=5 seed=4720721261117928063")
        shows(page, "1 episode")
        assert page.inner_text("a.row span.number") == "5.0"  # the suspect verdict is no score
        page.fill("#filter", "seed>4720721261117928063")
        shows(page, "1 episode")
        at(page, "#/episode/0", "[data-episode='0']")
        card = page.inner_text("article:nth-of-type(1)")
        assert "query: tall towers" in card
        assert "the server's word" in card
        assert "a; b" not in card  # what the criteria say already
        assert page.locator("article:nth-of-type(1) .tag.bad").inner_text() == "search: timeout"
        assert page.locator(".node.broke").count() == 1
        page.click(".quote:not(.lost)")
        page.wait_for_selector("mark.active >> text=tower is 5 m")
        page.click("text=what the coach would have done")
        assert "I search twice." in page.inner_text("article:nth-of-type(1)")
        at(page, "#/compare/0/1", ".pair")
        assert "search ok: query: tall towers" in page.inner_text(".pair")
        page.close()


def test_training_shows_reward_return_and_advantage(page: Any) -> None:
    at(page, "#/episodes?q=step%3D1", "a.row")
    shows(page, "1 episode")
    page.click("a.row")
    page.wait_for_selector(".chain")
    assert page.inner_text("article:nth-of-type(1) .chain").split() == [
        *("score", "2.0", "reward", "2.0", "return", "+4.50", "advantage", "−0.75")
    ]
    assert "masked" in page.inner_text("article:nth-of-type(2) .chain")
    page.click("text=curves at this step")
    page.wait_for_selector(".marked", state="attached")
    assert "success 0.25" in page.inner_text(".curve .keys")
    at(page, "#/training?step=7", ".curve")  # a step without metrics
    page.locator(".curve .keys", has_text="success –").wait_for()


def test_only_the_rows_in_sight_exist_and_the_list_scrolls_inside_the_window(browser: Any, url: str) -> None:
    for width, height in ((1280, 800), (400, 800)):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(url)
        shows(page, "61 episodes")
        page.wait_for_function("document.querySelectorAll('a.row').length < 61")
        assert page.evaluate("document.documentElement.scrollHeight") == height
        page.evaluate("document.querySelector('.scroll').scrollTop = 1e6")
        page.locator("a.row", has_text="sum-29").first.wait_for()
        page.close()


def test_a_key_leads_to_its_episode_whatever_its_number(page: Any, run: Path) -> None:
    key = list(Traces(run).summaries)[3].key
    at(page, f"#/episode?key={key}", "[data-episode='3']")
    at(page, "#/episode?key=nothing", ".empty")
    assert page.inner_text(".empty") == "These traces have no episode nothing."


def test_the_same_task_is_compared_across_checkpoints(page: Any) -> None:
    at(page, "#/episode/0", ".same")
    page.click(".same >> text=compare")
    page.wait_for_selector(".pair")
    assert "+7.00 points" in page.inner_text(".pair")
    assert page.locator(".compare .side").first.inner_text().startswith("before")


def test_a_growing_run_is_followed(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "traces" / "before.jsonl"
    store = TraceStore(path)
    store.append(episode(False, 0))
    with served(tmp_path) as server:
        page = browser.new_page()
        page.goto(server.url)
        shows(page, "1 episode")
        store.append(episode(True, 1, "new"))
        shows(page, "2 episodes")
        assert "new" in page.inner_text("a.row:nth-of-type(2)")
        page.close()
    store.close()


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_nothing_scrolls_sideways(browser: Any, url: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(url)
    for hash, selector in VIEWS.items():
        at(page, hash, selector)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, hash
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, run: Path, scheme: str, tmp_path: Path) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make viewer")
    path = tmp_path / "page.html"
    export(Collection(run), path)
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.goto(path.as_uri())
    page.add_script_tag(path=str(AXE))
    for hash, selector in VIEWS.items():
        at(page, hash, selector)
        found = page.evaluate("async () => (await axe.run()).violations")
        serious = [
            (each["id"], [node["html"][:150] for node in each["nodes"]][:3])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], hash
    page.close()


def test_dark_and_light_can_be_chosen(page: Any) -> None:
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_an_export_too_large_to_open_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mappa_env.errors import DataError
    from mappa_env.viewer import exporting

    monkeypatch.setattr(exporting, "MOST_BYTES", 100_000)
    with pytest.raises(DataError, match="too many episodes for one page"):
        export(Collection(run), tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_old_traces_open(tmp_path: Path) -> None:
    """The first version's lines: one per action, then one that closes the episode."""
    from pydantic_core import to_json

    made = episode(False, 3)
    lines = [to_json({"v": 1, "kind": "action", "action": action}) for action in made.actions]
    closing = {
        "v": 1,
        "kind": "episode",
        "env_id": made.env_id,
        "task": {
            name: getattr(made.task, name) for name in ("id", "prompt", "metric", "compact", "topic", "split")
        },
        "seed": 3,
        "settings": {},
        "actions": 2,
        "outcome": dataclasses.asdict(made.outcome) if made.outcome else None,
        "attribution": None,
    }
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"\n".join([*lines, to_json(closing)]) + b"\n")
    assert '"agent":"maker_0"' in Collection(path).episode(0)
