"""Reports and comparisons in a browser: every width, dark and light, links into the viewer, inert text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostile import PAYLOADS, hostile_episode
from mappa_env.trace import TraceStore
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.exporting import export
from mappa_rl.report.html import build_comparison, build_report
from paths import ROOT
from served import served
from synthetic_run import make_run

AXE = ROOT / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out: Path = tmp_path_factory.mktemp("runs")
    for name, more in (("rpp", ()), ("ema", ("algo.name=ema", "algo.kl_coef=0.02"))):
        for seed in (0, 1):
            make_run(out / f"{name}-{seed}", seed=seed, steps=8, more=more)
    return {"report": build_report(out / "rpp-0"), "comparison": build_comparison([out])}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "comparison"])
def test_nothing_scrolls_sideways_and_nothing_is_hard_to_read(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(pages[name].as_uri())
    page.evaluate(OPEN)
    for width in (400, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        inside = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert width < 1280 or page.evaluate(inside) == 0
    if AXE.is_file():
        page.add_script_tag(path=str(AXE))
        found = page.evaluate("async () => (await axe.run()).violations")
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    context.close()


def test_dark_mode_changes_the_paper_and_the_lines_of_charts(browser: Any, pages: dict[str, Path]) -> None:
    seen = set()
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(pages["report"].as_uri())
        line = "getComputedStyle(document.querySelector('svg [style*=\"var(--c0\"]')).stroke"
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen.add((paper, page.evaluate(line)))
        page.close()
    assert len({paper for paper, _ in seen}) == len({line for _, line in seen}) == 2


def test_links_lead_to_the_episode_in_a_viewer_served_or_exported(
    browser: Any, pages: dict[str, Path]
) -> None:
    run = pages["report"].parent
    first = "a[href*='#/episode']:visible"
    with served(run) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.click("nav >> text=report")
        page.click(f"{first} >> nth=-1")
        page.wait_for_selector("[data-episode] article")
        assert page.url.startswith(f"{server.url}viewer.html#/episode/")
        task = page.inner_text("h1")
        page.close()
    export(Collection(run), run / "viewer.html")
    page = browser.new_page()
    page.goto(pages["report"].as_uri())
    page.click(f"{first} >> nth=-1")
    page.wait_for_selector("[data-episode] article")
    assert page.inner_text("h1") == task
    page.close()


def test_hostile_text_is_inert_in_the_report(browser: Any, tmp_path: Path) -> None:
    make_run(tmp_path, steps=2)
    for phase in ("before", "after"):
        (tmp_path / "traces" / f"{phase}.jsonl").unlink()
        store = TraceStore(tmp_path / "traces" / f"{phase}.jsonl")
        for start in range(0, len(PAYLOADS), 12):
            store.append(hostile_episode(PAYLOADS[start : start + 12], seed=start))
        store.close()
    path = build_report(tmp_path)
    page = browser.new_page()
    dialogs: list[str] = []
    requests: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.evaluate(OPEN)
    page.wait_for_timeout(100)
    assert (dialogs, requests, page.evaluate("window.hit ?? null")) == ([], [path.as_uri()], None)
    assert (
        page.locator("script, img, iframe, object, embed, form, base, video, audio, [onclick]").count() == 0
    )
    assert PAYLOADS[0] in page.inner_text("body")
    page.close()
