"""What a language-model coach does when its server misbehaves, at its rate limits, and without a network.

All servers here are FAKES: real HTTP on loopback, in both protocols (Gemini's and OpenAI's), with scripted
answers. No model judges anything; the figures are about the machinery around one.

* storm: verdicts while 5 % of the calls meet each kind of fault, and while the server is down for a moment.
  No score may be invented: each is computed again, from the grades that the fake gave and the card's weights.
* stop: a refused key, another model's answer and a spent budget end the run.
* pace: 200 verdicts at once, one second each; the time they take over the least that the limits allow.
* replay: episodes recorded under faults, then played again without server, key and sockets.

    python benchmarks/coach_storm.py [--quick] [--only storm,pace] [--json PATH]

Exit status 1: something that must hold does not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from rich.console import Console
from rich.table import Table
from weather import KEY, Weather, fake, grade

import mappa_env
from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.envs.partners import Partners
from mappa_env.errors import CoachStopped
from mappa_env.registration import find_card
from mappa_env.types import Evidence, Task

KINDS = ("gemini", "openai")
PRICE = {"input": 1.0, "cached": 0.1, "output": 10.0}
OPEN = {"requests": 1e6, "tokens": 1e9}
TARGET = 1.2


# -- the servers ------------------------------------------------------------------------------------------


def evidence(card: Card, number: int) -> Evidence:
    return Evidence(
        task=Task("t/1", "What is two plus two?", "exact_match", truth={"answer": "4"}),
        agent=card.team["solver_0"],
        turn=0,
        step=0,
        prompt="Solve it.",
        action=f"plan: {number}",
        code=None,
        tool=None,
        last_turn=True,
    )


def spec(server: Any, **options: Any) -> dict[str, Any]:
    quick = {"base_s": 0.05, "cap_s": 2.0, "timeout_s": 1.0, "deadline_s": 120.0, "breaker_pause_s": 0.5}
    if server.kind == "gemini":
        address = {"name": "gemini:gemini-3.8-flash", "base_url": server.url}
    else:
        address = {"name": f"openai:fake@{server.url}"}
    return {**address, "limits": OPEN, **quick, **options}


@contextlib.contextmanager
def listening(seen: list[str]) -> Iterator[None]:
    """Collect in ``seen`` everything that is logged or written to the terminal."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        seen.append(text.getvalue())


def leaks(seen: Sequence[str], folder: Path, server: Any) -> list[str]:
    """The places where the key appears, other than its header."""
    places = [f"text {index}" for index, text in enumerate(seen) if KEY in text]
    places += [
        path.name for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    places += ["a URL or a body" for call in server.calls if KEY in call.path + json.dumps(call.body)][:1]
    return places


# -- storm ------------------------------------------------------------------------------------------------


def storm(kind: str, count: int, folder: Path) -> dict[str, Any]:
    card = find_card("mathchat")
    assert card.coach is not None
    rows = yaml.safe_load(card.coach.read_text(encoding="utf-8"))["roles"]["solver"]["criteria"]
    weights = {row["name"]: row["weight"] for row in rows}
    weather, seen = Weather(1.5, outage=count // 3), list[str]()
    budget, ledger = 100.0, folder / "ledger.jsonl"
    with fake.serving(kind, otherwise=weather, grade=grade) as server, listening(seen):
        coach = make_coach(
            spec(server, budget=budget, price=PRICE, ledger=ledger, cache=folder / "calls.sqlite"), card
        )
        start = time.perf_counter()
        verdicts = coach.judge_many([evidence(card, number) for number in range(count)])
        seconds = time.perf_counter() - start
        coach.close()
    invented = 0
    for number, verdict in enumerate(verdicts):
        grades = {name: zlib.crc32(f"{number}/{name}".encode()) % 5 for name in weights}
        right = 10 * sum(weights[n] * grades[n] for n in weights) / 4 / sum(weights.values())
        wanted = right if verdict.status in ("ok", "suspect") else None
        same = verdict.score == wanted if wanted is None else abs((verdict.score or -1) - wanted) < 1e-3
        invented += not (same or (wanted == 0 and verdict.score == 0))
    booked = [json.loads(line) for line in ledger.read_text().splitlines()]
    spent = sum(row["cost"] for row in booked)
    prompt, cached, output, thoughts = server.usage
    cost = ((prompt - cached) * 1.0 + cached * 0.1 + (output + thoughts) * 10.0) / 1e6
    free = ("429", "503", "html", "empty", "blocked", "outage")
    billed = cost * sum(times for name, times in weather.met.items() if name not in free)
    seen += [repr(verdicts)]
    statuses = Counter(verdict.status for verdict in verdicts)
    return {
        "kind": kind,
        "verdicts": count,
        **{s: statuses[s] for s in ("ok", "suspect", "abstain", "error")},
        "invented": invented,
        "calls": len(server.calls),
        "met": dict(weather.met),
        "seconds": seconds,
        "budget": budget,
        "spent": spent,
        "billed_by_the_server": billed,
        "leaks": leaks(seen, folder, server),
        "holds": invented == 0
        and billed <= spent + 1e-9 <= budget
        and len(booked) >= len(server.calls)
        and sum(statuses.values()) == count
        and not leaks(seen, folder, server),
    }


# -- stop -------------------------------------------------------------------------------------------------


def stop(kind: str, why: str, count: int, folder: Path) -> dict[str, Any]:
    """``count`` verdicts; the server works well for the first 20 calls."""
    card, seen, budget = find_card("mathchat"), list[str](), 0.2
    bad = {"401": fake.failing(401, f"wrong key {KEY}"), "version": fake.as_another("fake-model-002")}
    options = {"budget": budget, "price": PRICE} if why == "budget" else {}
    with fake.serving(kind, otherwise=bad.get(why), grade=grade) as server, listening(seen):
        server.script += [fake.ok] * (20 if why in bad else 0)
        server.latency_s = 0.02
        coach = make_coach(spec(server, concurrency=16, cache=folder / "calls.sqlite", **options), card)
        futures = [coach.judge_later(evidence(card, number)) for number in range(count)]
        failures = [error for future in futures if (error := future.exception()) is not None]
        for error in failures:
            details = traceback.TracebackException.from_exception(error, capture_locals=True)
            seen.append("".join(details.format()))
        coach.close()
    prompt, cached, output, thoughts = server.usage
    cost = len(server.calls) * (prompt - cached + cached * 0.1 + (output + thoughts) * 10) / 1e6
    stopped = bool(failures) and all(isinstance(error, CoachStopped) for error in failures)
    after = len(server.calls) - 20
    found = leaks(seen, folder, server)
    return {
        "kind": kind,
        "why": why,
        "verdicts": count,
        "calls": len(server.calls),
        "stopped": stopped,
        "message": str(failures[0]) if failures else "",
        "leaks": found,
        **({"billed_by_the_server": cost, "budget": budget} if why == "budget" else {"calls_after": after}),
        "holds": stopped and not found and (cost <= budget if why == "budget" else 1 <= after <= 16),
    }


# -- pace -------------------------------------------------------------------------------------------------


def bound(count: int, latency_s: float, concurrency: int, limits: dict[str, float], tokens: int) -> float:
    """Least seconds for ``count`` calls: five seconds' worth of a minute's limit may be sent at once."""
    waves = -(-count // concurrency) * latency_s
    waits = (
        [(count - 5 * limits["requests"] / 60) / (limits["requests"] / 60)] if "requests" in limits else []
    )
    waits += [(count * tokens / (limits["tokens"] / 60)) - 5] if "tokens" in limits else []
    return max(waves, *(wait + latency_s for wait in waits), latency_s)


def pace(
    concurrency: int, limits: dict[str, float], count: int = 200, latency_s: float = 1.0
) -> dict[str, Any]:
    card = find_card("mathchat")
    with fake.serving("openai", grade=grade, latency_s=latency_s) as server:
        coach = make_coach(spec(server, limits=limits or None, concurrency=concurrency, timeout_s=60.0), card)
        start = time.perf_counter()
        verdicts = coach.judge_many([evidence(card, number) for number in range(count)])
        seconds = time.perf_counter() - start
        coach.close()
    prompt, _, output, thoughts = server.usage
    least = bound(count, latency_s, concurrency, limits, prompt + output + thoughts)
    well = all(verdict.status == "ok" for verdict in verdicts) and server.most_in_flight <= concurrency
    return {
        "concurrency": concurrency,
        "limits": limits,
        "seconds": seconds,
        "bound": least,
        "ratio": seconds / least,
        "most_in_flight": server.most_in_flight,
        "holds": well and 0.97 <= seconds / least <= TARGET,
    }


# -- replay -----------------------------------------------------------------------------------------------


def rewards(coach: Any, episodes: int) -> list[list[Any]]:
    env = gym.make("mappa/MathChat-v0", coach=coach, sandbox="calculator", judging="deferred")
    episode, found = team_env(env).episode, []
    team = Partners(episode.card, "faulty", agent=None, prompts="full")
    for seed in range(episodes):
        env.reset(seed=seed)
        team.reset(episode)
        while not episode.over:
            env.step(team.act(episode))
        found.append(
            [[a.reward, a.reward_valid, a.verdict.status, a.verdict.reasoning] for a in episode.actions]
        )
    env.close()
    return found


def replay(kind: str, episodes: int, folder: Path) -> dict[str, Any]:
    cache = folder / "calls.sqlite"
    plain = lambda call, name: zlib.crc32(call.text[-400:-45].encode() + name.encode()) % 5  # noqa: E731
    with fake.serving(kind, otherwise=Weather(1.5), grade=plain) as server:
        recorded = rewards(spec(server, cache=cache, deadline_s=2.0), episodes)
    command = [sys.executable, __file__, "--replay", str(cache), str(episodes)]
    apart = ["unshare", "--user", "--map-root-user", "--net"]
    own_network = (
        bool(shutil.which("unshare"))
        and not subprocess.run([*apart, "true"], capture_output=True, check=False).returncode
    )
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    done = subprocess.run(
        [*(apart if own_network else []), *command], capture_output=True, text=True, env=keyless, check=False
    )
    replayed = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-500:]
    actions = [action for episode in recorded for action in episode]
    return {
        "kind": kind,
        "episodes": episodes,
        "actions": len(actions),
        "no_network_namespace": own_network,
        "without_a_score": sum(not action[1] for action in actions),
        "holds": replayed == recorded,
        **({} if replayed == recorded else {"replayed": replayed}),
    }


def replay_here(cache: str, episodes: int) -> None:
    """Replay in a separate process in which no socket may connect."""

    def refuse(*args: Any) -> None:
        raise OSError("no network here")

    socket.socket.connect = refuse  # type: ignore[assignment,method-assign]
    socket.socket.connect_ex = refuse  # type: ignore[assignment,method-assign]
    print(json.dumps(rewards(f"replay:{cache}", episodes)))


# -- all of it --------------------------------------------------------------------------------------------


def run(part: str, quick: bool) -> list[dict[str, Any]]:
    def with_folder(measure: Any, *arguments: Any) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            found: dict[str, Any] = measure(*arguments, Path(folder))
            return found

    if part == "storm":
        return [with_folder(storm, kind, 200 if quick else 1000) for kind in KINDS]
    if part == "stop":
        plan = [(kind, why) for kind in KINDS for why in ("401", "version", "budget")]
        return [with_folder(stop, kind, why, 100 if quick else 300) for kind, why in plan]
    if part == "replay":
        return [with_folder(replay, kind, 4 if quick else 25) for kind in KINDS]
    settings: list[tuple[int, dict[str, float]]] = [
        (64, {}),
        (200, {"requests": 1200}),
        (64, {"requests": 600}),
        (64, {"tokens": 1e6}),
        (200, {"tokens": 1e6}),
        (200, {"requests": 900, "tokens": 8e5}),
        (16, {}),
    ]
    return [pace(*each) for each in (settings[:4:3] if quick else settings)]


SHOWN = {
    "storm": ("kind", "verdicts", "ok", "suspect", "abstain", "error", "invented", "calls", "seconds"),
    "stop": ("kind", "why", "verdicts", "calls", "stopped"),
    "pace": ("concurrency", "limits", "bound", "seconds", "ratio", "most_in_flight"),
    "replay": ("kind", "episodes", "actions", "without_a_score", "no_network_namespace"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller, under a minute")
    parser.add_argument("--only", metavar="A,B", help=f"of {', '.join(SHOWN)}", default=",".join(SHOWN))
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--replay", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.replay:
        replay_here(args.replay[0], int(args.replay[1]))
        return 0
    os.environ.update(GEMINI_API_KEY=KEY, OPENAI_API_KEY=KEY)
    console, found = Console(width=130), dict[str, list[dict[str, Any]]]()
    for part in args.only.split(","):
        found[part] = run(part, args.quick)
        table = Table(*SHOWN[part], "holds", title=f"{part} (fake servers)")
        for row in found[part]:
            cells = [f"{v:.2f}" if isinstance(v := row[name], float) else str(v) for name in SHOWN[part]]
            table.add_row(*cells, "yes" if row["holds"] else "[red]NO")
        console.print(table)
    if args.json:
        document = {"version": mappa_env.__version__, "fake": True, **found}
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] for rows in found.values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
