"""How long the viewer takes in headless Chromium, beside the same page with 100 episodes.

Writes a trace of --episodes DSBench-like episodes with eight actions each, serves it, and measures from the
start of the navigation until the list is drawn, from a click until an episode is, and from a filter until the
list shows what it finds. Needs Chromium and Playwright.

    python benchmarks/viewer.py [--episodes 10000] [--repeats 7] [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from mappa_env.trace import TraceStore
from mappa_env.types import (
    ActionRecord,
    Criterion,
    FileChange,
    Outcome,
    Task,
    ToolResult,
    Trajectory,
    Verdict,
)
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.server import ViewerServer

TARGETS_MS = {"list": 1000.0, "episode": 300.0}
AGENTS = (
    "engineer_0",
    "engineer_0",
    "engineer_0",
    "modeler_0",
    "modeler_0",
    "modeler_0",
    "analyst_0",
    "analyst_0",
)
PROMPT = "\n".join(f"{number}: describe the column and what it means for the model" for number in range(80))
CODE = "\n".join(
    f"frame['c{k}'] = frame['c{k}'].fillna(frame['c{k}'].median())  # column {k}" for k in range(30)
)
LONGEST_MS = 30_000
"""After so long without a result the benchmark fails: a hang must not pass for a slow machine."""
_WAIT = """(look, begin) => new Promise((done, failed) => {
  const start = begin();
  const ask = () => look() ? done(performance.now() - start)
    : performance.now() - start > LONGEST ? failed(new Error(`nothing after LONGEST ms at ${location.href}`))
    : setTimeout(ask, 4);
  ask();
})""".replace("LONGEST", str(LONGEST_MS))
WHEN_LISTED = f"""() => ({_WAIT})(() => document.querySelector("a.row"), () => 0)"""
WHEN_OPEN = f"""number => ({_WAIT})(
  () => document.querySelectorAll(`[data-episode="${{number}}"] article`).length === 8,
  () => {{
    const start = performance.now();
    document.querySelector(`a.row[href="#/episode/${{number}}"]`).click();
    return start;
  }})"""
WHEN_FILTERED = f"""() => ({_WAIT})(
  () => document.querySelector(".square.hit"),
  () => {{
    const start = performance.now();
    const field = document.getElementById("filter");
    field.value = "agent=modeler_0 score<3 success=false";
    field.dispatchEvent(new Event("input", {{ bubbles: true }}));
    return start;
  }})"""


def trajectory(seed: int, rng: random.Random) -> Trajectory:
    actions = []
    for step, agent in enumerate(AGENTS):
        turn = AGENTS[:step].count(agent)
        score = rng.choice((0.5, 2.0, 5.0, 6.0, 8.5, 10.0))
        text = f"I work on it ({seed}).\n```python\n{CODE}\nframe.to_csv('table_{step}.csv')\n```"
        actions.append(
            ActionRecord(
                step=step,
                agent=agent,
                turn=turn,
                messages=({"role": "user", "content": PROMPT},),
                action=text,
                thinking="first the medians",
                answer=text,
                code=CODE,
                tool=ToolResult(
                    "ok",
                    0,
                    PROMPT[:1500],
                    "",
                    files=(FileChange(f"table_{step}.csv", "created", 100, "0" * 64),),
                ),
                verdict=Verdict(
                    "ok",
                    score,
                    "as far as it goes",
                    tuple(
                        Criterion(name, score / 10, 0.25, "seen in the output", PROMPT[:40])
                        for name in "abcd"
                    ),
                ),
                reward=score,
                reward_valid=True,
                stratum=("regression", agent.rsplit("_", 1)[0], turn),
                seed=seed,
                last_turn=step in (2, 5, 7),
            )
        )
    success = rng.random() < 0.4
    task = Task(f"task-{seed % 500}", PROMPT, "rmse", topic=f"topic {seed % 7}")
    outcome = Outcome(float(success), success, "ok", "skill below the median")
    return Trajectory("DSBench-v0", task, seed, tuple(actions), outcome)


def write(folder: Path, episodes: int) -> Path:
    rng = random.Random(0)
    per_step = max(1, episodes // 50)
    for start in range(0, episodes, per_step):
        step = 1 + start // per_step
        path = folder / "traces" / f"step-{step:06d}.jsonl.gz"
        store = TraceStore(path, about={"phase": "train", "step": step})
        for seed in range(start, min(episodes, start + per_step)):
            store.append(trajectory(seed, rng))
        store.close()
    return folder


def measure(browser: Any, url: str, repeats: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"list": [], "episode": [], "filter": []}
    for repeat in range(repeats):
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(LONGEST_MS)
        page.goto(url, wait_until="commit")
        found["list"].append(page.evaluate(WHEN_LISTED))
        found["episode"].append(page.evaluate(WHEN_OPEN, repeat))
        page.evaluate("location.hash = '#/episodes'")
        page.wait_for_selector("a.row")
        found["filter"].append(page.evaluate(WHEN_FILTERED))
        page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="1000 episodes, 3 repeats")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args()
    if args.quick:
        args.episodes, args.repeats = 1000, 3
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("there is no Chromium: apt-get install chromium")
    figures: dict[str, list[float]] = {}
    console = Console()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        for count in (100, args.episodes):
            console.print(f"writing {count:,} episodes")
            collection = Collection(write(Path(folder, str(count)), count))
            collection.changes(0)  # as the command does before it prints the address
            with ViewerServer(collection) as server:
                thread = threading.Thread(target=server.serve_forever)
                thread.start()
                measured = measure(browser, server.url, args.repeats)
                figures |= {f"{name}, {count} episodes": values for name, values in measured.items()}
                server.shutdown()
                thread.join()
        browser.close()
    medians = {name: statistics.median(found) for name, found in figures.items()}
    table = Table("", "100 episodes, ms", f"{args.episodes} episodes, ms", "ratio", "target, ms")
    for name in ("list", "episode", "filter"):
        few, many = medians[f"{name}, 100 episodes"], medians[f"{name}, {args.episodes} episodes"]
        target = f"{TARGETS_MS[name]:.0f}" if name in TARGETS_MS else "-"
        table.add_row(name, f"{few:.0f}", f"{many:.0f}", f"{many / few:.1f}", target)
    console.print(table)
    console.print(
        f"medians of {args.repeats}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    if args.json:
        args.json.write_text(json.dumps({"unit": "ms", "medians": medians, "repeats": figures}) + "\n")


if __name__ == "__main__":
    main()
