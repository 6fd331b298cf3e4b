"""What agents, files and coaches wrote stays text in the viewer's page, served and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostile import PAYLOADS, hostile_episode
from mappa_env.trace import TraceStore
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.exporting import export
from served import served

PER_EPISODE = 10
WATCH = """addEventListener("securitypolicyviolation", event => {
  window.violations = [...(window.violations ?? []), event.blockedURI + " " + event.violatedDirective];
});"""
FOREIGN = "img, iframe, object, embed, form, base, video, audio, template, [onclick], [onerror], [style*=url]"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("hostile") / "</script><img src=x onerror=alert(1)>.jsonl".replace(
        "/", "∕"
    )
    store = TraceStore(path)
    for start in range(0, len(PAYLOADS), PER_EPISODE):
        store.append(hostile_episode(PAYLOADS[start : start + PER_EPISODE], seed=start))
    store.close()
    return path


class Watched:
    """A page that notes dialogs and requests."""

    def __init__(self, browser: Any, home: str) -> None:
        self.page = browser.new_page()
        self.dialogs: list[str] = []
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request",
            lambda request: (
                None if request.url.startswith((home, "data:,")) else self.foreign.append(request.url)
            ),
        )
        self.page.add_init_script(WATCH)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def assert_inert(self) -> None:
        assert (self.dialogs, self.foreign, self.errors) == ([], [], [])
        assert self.page.evaluate("window.hit ?? null") is None
        assert self.page.evaluate("window.violations ?? []") == []
        assert self.page.locator(FOREIGN).count() == 0
        assert self.page.locator("a:not([href^='#/'])").count() == 0


def look_at_everything(watched: Watched, url: str, episodes: int) -> None:
    page = watched.page
    page.goto(url)
    page.wait_for_selector("a.row")
    watched.assert_inert()
    for number in range(episodes):
        page.goto(f"{url}#/episode/{number}")
        page.wait_for_selector(f"[data-episode='{number}']")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        for selector in (".fold", ".quote:not(.lost)"):
            page.evaluate(f"document.querySelectorAll('{selector}').forEach(each => each.click())")
        watched.assert_inert()
    for view, selector in (("compare/0/1", ".pair"), ("strata", ".panel"), ("training", ".empty")):
        page.goto(f"{url}#/{view}")
        page.wait_for_selector(selector)
        watched.assert_inert()


def test_there_are_sixty_payloads_and_a_careless_page_runs_many_of_them(browser: Any) -> None:
    assert len(set(PAYLOADS)) >= 60
    hits = 0
    page = browser.new_page()
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.route("http://evil.invalid/**", lambda route: route.abort())
    for payload in PAYLOADS[12:24]:
        page.goto("about:blank")
        page.evaluate("text => { document.body.innerHTML = text; }", payload)
        page.wait_for_timeout(30)
        hits += bool(page.evaluate("window.hit ?? 0"))
    page.close()
    assert hits >= 4


def test_served_text_is_inert(browser: Any, trace: Path) -> None:
    with served(trace) as server:
        watched = Watched(browser, server.url)
        look_at_everything(watched, server.url, len(server.collection))
        shown = watched.page.goto(f"{server.url}#/episode/0")
        assert shown is None or shown.ok
        watched.page.wait_for_selector("[data-episode='0']")
        assert PAYLOADS[0] in watched.page.inner_text("h1")
        watched.page.close()


def test_exported_text_is_inert(browser: Any, trace: Path, tmp_path: Path) -> None:
    collection = Collection(trace)
    path = tmp_path / "page.html"
    export(collection, path)
    watched = Watched(browser, path.as_uri())
    look_at_everything(watched, path.as_uri(), len(collection))
    watched.page.close()


def test_an_exported_page_holds_every_payload_exactly(browser: Any, trace: Path, tmp_path: Path) -> None:
    collection = Collection(trace)
    path = tmp_path / "page.html"
    export(collection, path)
    page = browser.new_page()
    page.goto(path.as_uri())
    found = []
    for number in range(len(collection)):
        found += page.evaluate(
            "number => JSON.parse(document.getElementById(`episode-${number}`).textContent).actions.map(a => "
            "[...a.thinking].map(c => c.codePointAt(0)))",
            number,
        )
    page.close()
    assert found == [[ord(char) for char in payload] for payload in PAYLOADS]
