"""Does a run on a cluster keep its promises while its actors die?

Two runs of a small demo on two Ray nodes of this machine, with crews of two processes and a FAKE language
model as the coach (real HTTP on loopback, grades that depend on the question alone): one undisturbed, one of
whose processes a random one is killed (SIGKILL) every few seconds, --kills times over all kinds: environment
workers, the coach, learners, crews and the process that leads, with engine.name=vllm engines too. No node is
killed. Then, for the second:

* as many steps as asked for, each once
* each step's rewards in the metrics are those of its traces, of as many episodes as asked for
* the metrics and rewards of the undisturbed run, so no reward is lost or counted twice
* in the coach's ledger one line for each answer in its cache, so none cost anything twice
* every verdict in its traces is an answer of the cache, by its id, and the score of each question is that of
  the undisturbed run

vLLM repeats log-probs only up to rounding, so a draw may change. With it, the metrics, rewards and questions
of the two runs are not compared; the other promises hold.

    python benchmarks/ray_kills.py [--quick] [--kills N] [--seed N] [key=value ...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fakes
import psutil
from rich.console import Console

from mappa_env.trace import Recorded, Traces
from mappa_rl.telemetry.sinks import read_metrics

fake_llm, ray_cluster, runs = (fakes.load(name) for name in ("fake_llm", "ray_cluster", "runs_on_ray"))
TIMES = (
    "time",
    "tokens_per_s",
    "coach/calls",
    "coach/retries",
    "coach/cached",
    "coach/latency",
    "coach/dollars",
)
"""Metrics that measure time, or what an answer cost that the cache gave again."""
LEADER = "leader"
EPISODES = 8
"""Of a step."""


def processes_of(kind: str) -> list[psutil.Process]:
    """The processes of a kind: of a class of actors, or the one that leads."""
    if kind != LEADER:
        found: list[psutil.Process] = runs.actors_named(kind)
        return found
    leading = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "mappa_rl.training.worker" in process.cmdline():
                leading.append(process)
    return leading


class Killer(threading.Thread):
    """Kills a process of the run every ``every_s`` seconds on average, ``count`` times at most.

    First a kind is drawn, then one of its processes once there is one. So rare kinds die as often, and a run
    that starts again comes far enough to have the late ones.
    """

    def __init__(self, kinds: list[str], count: int, every_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._kinds, self._count, self._every_s, self._draw = kinds, count, every_s, random.Random(seed)
        self.done = threading.Event()
        self.killed: Counter[str] = Counter()

    def run(self) -> None:
        while self.killed.total() < self._count:
            if self.done.wait(self._draw.uniform(0.5, 1.5) * self._every_s):
                return
            kind = self._draw.choice(self._kinds)
            while not (found := processes_of(kind)):
                if self.done.wait(0.1):
                    return
            with suppress(psutil.NoSuchProcess):
                self._draw.choice(found).kill()
                self.killed[kind] += 1


def trained(out: Path, cluster: Any, coach: str, overrides: list[str], killer: Killer | None) -> None:
    """A run there, in a process of its own, and what disturbs it."""
    limits = ["cluster.moves=50", "cluster.restarts=50", "cluster.envs_per_worker=2"]
    words = ["warmstart.steps=3", "eval.episodes=2", *limits, *runs.on(cluster), *overrides]
    process = runs.begun(out, [*words, f"env.coach={json.dumps(coach)}"])
    if killer is not None:
        killer.start()
    said, _ = process.communicate()
    if killer is not None:
        killer.done.set()
        killer.join()
    if process.returncode != 0:
        sys.exit(f"The run ended with status {process.returncode}:\n{said}")


def facts(out: Path) -> dict[str, Any]:
    """What must not depend on who died."""
    rows = [{k: v for k, v in row.items() if not k.startswith(TIMES)} for row in read_metrics(out)]
    rewards = [[action.reward for action in each.trajectory.actions] for each in Traces(out)]
    return {"steps": [row["step"] for row in rows], "metrics": rows, "rewards": rewards}


def counted(out: Path, episodes: int) -> bool:
    """Whether the rewards of each step are those of its traces, which hold ``episodes`` of it."""
    steps: defaultdict[int, list[Recorded]] = defaultdict(list)
    for each in Traces(out):
        if "step" in each.about:
            steps[each.about["step"]].append(each)
    for row in read_metrics(out):
        mine = steps.pop(row["step"], [])
        rewards: defaultdict[str, list[float]] = defaultdict(list)
        for each in mine:
            for action, turn in zip(each.trajectory.actions, each.learned.values(), strict=True):
                if not turn.valid or turn.reward != action.verdict.score:  # process rewards are the scores
                    return False
                rewards[f"reward/{action.agent}"].append(turn.reward)
        means = {name: sum(values) / len(values) for name, values in rewards.items()}
        if len(mine) != episodes or means != {k: v for k, v in row.items() if k.startswith("reward/")}:
            return False
    return not steps


def verdicts(out: Path) -> dict[str, tuple[float | None, tuple[str, ...]]]:
    """Question -> the score and the ids of the answers that the traces record. One verdict each."""
    found: dict[str, tuple[float | None, tuple[str, ...]]] = {}
    for each in Traces(out):
        for action in each.trajectory.actions:
            verdict = action.verdict
            if verdict is not None and verdict.asked is not None:
                said = (verdict.score, verdict.asked.response_ids)
                if found.setdefault(verdict.asked.prompt_sha, said) != said:
                    sys.exit(
                        f"{out} has two verdicts on one question: {found[verdict.asked.prompt_sha]}, {said}"
                    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--quick", action="store_true", help="two kills")
    parser.add_argument("--kills", type=int, default=20, metavar="N")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="between kills, on average"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args()
    kills = 2 if args.quick else args.kills
    crews = [
        "placement.crews={verifier_0: 1}",
        "run.processes=2",
        "optim.zero_stage=2",
        "optim.minibatches=2",
    ]
    steps = [f"run.steps={3 if args.quick else 40}", f"rollout.episodes_per_step={EPISODES}"]
    own = [*steps, *crews, *args.overrides]
    os.environ["OPENAI_API_KEY"] = "key-of-a-fake"
    grade = lambda call, name: len(call.text) % 5  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="mappa-kills-") as folder:
        calm, hunted = Path(folder) / "calm", Path(folder) / "hunted"
        engines = "engine.name=vllm" in args.overrides
        kinds = [LEADER, *(kind for kind in runs.KINDS if engines or kind != "EngineHost")]
        killer = Killer(kinds, kills, args.every, args.seed)
        with ray_cluster.nodes(2) as nodes, fake_llm.serving("openai", grade=grade, latency_s=0.05) as server:
            for out, who in ((calm, None), (hunted, killer)):
                begin = [] if who is None else [f"warmstart.path={calm / 'warmstart'}"]
                trained(out, nodes, f"openai:m@{server.url}", [*own, *begin], who)
        first, second, whole = facts(calm), facts(hunted), counted(hunted, EPISODES)
        with closing(sqlite3.connect(hunted / "coach" / "calls.sqlite")) as cache:
            ids = [json.loads(row).get("id") for (row,) in cache.execute("select outcome from calls")]
        answers, judged = len(ids), verdicts(hunted)
        scores = [
            {question: score for question, (score, _) in each.items()} for each in (verdicts(calm), judged)
        ]
        lines = (hunted / "coach" / "ledger.jsonl").read_text().splitlines()
        ledger_lines = sum(json.loads(line)["known"] for line in lines)  # others were cut short by a kill
    found = {
        "every step once": first["steps"] == second["steps"],
        "every reward once": whole,
        "every answer once in the ledger": ledger_lines == answers,
        "every verdict an answer": bool(judged)
        and {id for _, said in judged.values() for id in said} <= {*ids},
        f"{kills} kills": killer.killed.total() == kills,
    }
    if not engines:
        found |= {
            "the same metrics": first["metrics"] == second["metrics"],
            "the same rewards": first["rewards"] == second["rewards"],
            "the same verdicts": scores[0] == scores[1],
        }
    console = Console(width=110)
    console.print(
        f"killed: {dict(killer.killed)}; {ledger_lines} lines in the ledger, {answers} answers, "
        f"{len(judged)} questions in the traces"
    )
    for promise, kept in found.items():
        console.print(f"{'yes' if kept else 'NO '}  {promise}")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
