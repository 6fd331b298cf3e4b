"""Does a real language model learn from process rewards, and better than by other means?

    make llm
    .venv-vllm/bin/python benchmarks/real_model.py [--recipe smollm2_lora] [--seeds 0,1,2]
                          [--arms process,outcome,raft,imitation] [--quick] [--out FOLDER]
                          [--json PATH] [--add PATH ...] [--figure PATH]

``process`` is the recipe as it is. The others begin with its warm start:

* ``outcome``: the same steps, rewarded by the outcome alone.
* ``raft``: the same steps of rejection sampling: imitate the episodes that succeeded (arXiv 2304.06767).
* ``imitation``: more of the warm start's imitation, as many steps as fit the time that ``process`` trained.
* ``few_shot``: no demonstrations at all. The model as it is, prompts with worked examples, the easiest level
  of the tasks and 30 steps.
* ``sprint``: the recipe on another environment, ``mappa/DSBenchSprint-v0``, whose agents write pandas and
  scikit-learn: 30 steps, with room for longer actions, and a warm start of its own.

The last two play other tasks, so their rates do not compare with the others'.

Rates are those of held-out tasks at the warm start's best temperature, which was chosen on training tasks. An
interrupted benchmark continues where it stopped: finished runs in --out are kept. Several machines or days
can share the work: ``--json`` keeps each one's runs, and ``--add`` reports them together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import learning_figure
from compared import difference, kept, rate, reached, signed, success, successes
from rich.console import Console
from rich.table import Table
from runs import begins, finished

from mappa_env.statistics.intervals import student
from mappa_rl.config import load_config
from mappa_rl.evaluation.results import Result
from mappa_rl.report.runs import RunData, read_run

BASE = "process"
ARMS: Mapping[str, list[str]] = {
    BASE: [],
    "outcome": ["env.shaping=outcome"],
    "raft": ["env.shaping=outcome", "algo.name=raft"],
    "imitation": ["run.steps=0", "warmstart.until=0"],
    "few_shot": [
        "warmstart.steps=0",
        "run.steps=30",
        f"env.id={Path(__file__).parent / 'mathchat_few_shot'}",
    ],
    "sprint": [
        "env.id=mappa/DSBenchSprint-v0",
        "warmstart.episodes=500",
        "rollout.max_new_tokens=224",
        "run.steps=30",
        "eval.episodes=157",
    ],
}
ALONE = frozenset({"few_shot", "sprint"})
"""Arms on other tasks than ``process``, without its warm start."""
QUICK = [
    "warmstart.episodes=30",
    "warmstart.steps=4",
    "warmstart.warmup_steps=1",
    "warmstart.batch_size=4",
    "run.steps=2",
    "eval.episodes=6",
    "eval.calibration_episodes=4",
    "rollout.episodes_per_step=4",
    "run.tensorboard=false",
]
LEVELS = (0.5, 0.6, 0.7)
"""Success in training whose first step is reported."""


def settings_of(arm: str, seed: int, out: Path, base: RunData | None) -> list[str]:
    """What makes ``arm`` of the recipe, given the run of ``process`` with the same seed."""
    if base is None or arm in ALONE:
        return ARMS[arm]
    assert base.summary is not None
    best = base.config.eval.temperatures[0] if base.best is None else base.best
    evaluated = [f"eval.temperatures=[{best:g}]", "eval.calibration_temperatures=[]"]
    if arm != "imitation":
        return [*begins(out, arm, seed, BASE, _warm_start(base)), *evaluated, *ARMS[arm]]
    if base.config.warmstart.path:
        raise SystemExit(
            "the arm imitation needs the time that a step of imitation takes, which a run that began with "
            f"warmstart.path={base.config.warmstart.path} does not know: let {BASE} make its warm start."
        )
    steps = imitated(base)
    pace = base.summary.work["warm start"]["learner"] / steps
    more = max(round(base.summary.phases["training"] / pace), 2)
    start = _warm_start(base).resolve()
    return [
        f"model.kind={start}",
        *evaluated,
        *ARMS[arm],
        f"warmstart.steps={more}",
        "warmstart.warmup_steps=1",
    ]


def imitated(run: RunData) -> int:
    """The steps of its warm start."""
    facts = json.loads((_warm_start(run) / "demonstrations.json").read_bytes())
    start = run.config.warmstart
    return next((step for step, rate in facts["checks"] if rate >= start.until), start.steps)


def _warm_start(run: RunData) -> Path:
    """The folder of the warm start that it made, or began with."""
    given = run.config.warmstart.path
    return Path(given) if given else run.folder / "warmstart"


def rows(run: RunData, phase: str) -> Sequence[Result]:
    """Its held-out episodes at the warm start's best temperature."""
    return next(mine for (when, at), mine in run.results.items() if when == phase and run.best in (None, at))


def record_of(arm: str, run: RunData, base: RunData | None) -> dict[str, Any]:
    """What is kept of a run: enough for every table here, without its folder.

    ``before`` and ``after``: a digit for each held-out episode, 1 if it succeeded.
    """
    assert run.summary is not None
    # The warm start's result is the run's that made it; more imitation is compared with that too.
    first = base if arm == "imitation" and base is not None else run
    return {
        "arm": arm,
        "seed": run.seed,
        "temperature": run.config.eval.temperatures[0] if run.best is None else run.best,
        "imitated": imitated(run) if _warm_start(run).is_dir() else 0,
        "minutes": {name: round(spent / 60, 2) for name, spent in run.summary.phases.items()},
        "fractions": run.summary.fractions,
        "reached": {f"{level:.0%}": reached(run, level) for level in LEVELS},
        "curve": [round(value, 4) for _, value in run.curve("success")],
        **kept(rows(first, "before"), rows(run, "after")),
    }


def report(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables."""
    table = Table(
        "arm",
        "seeds",
        "before",
        "after",
        "change, 95 % over tasks",
        "over seeds",
        f"against {BASE}",
        title="held-out success",
    )
    times = Table("arm", "seed", "T", "minutes by phase", "training reaches 50, 60, 70 % at step")
    for arm in ARMS:
        mine = [each for each in records if each["arm"] == arm]
        if not mine:
            continue
        before, after = (successes(mine, phase) for phase in ("before", "after"))
        seeds = [each["seed"] for each in mine]
        same = [each for each in records if each["arm"] == BASE and each["seed"] in seeds]
        against = "-"
        if arm not in {BASE, *ALONE} and len(same) == len(mine):
            same.sort(key=lambda each: seeds.index(each["seed"]))
            against = signed(difference(successes(same, "after"), after))
        table.add_row(
            arm,
            str(len(mine)),
            rate(success(before)),
            rate(success(after)),
            signed(difference(before, after)),
            _over_seeds(mine),
            against,
        )
        for each in mine:
            minutes = ", ".join(f"{name} {value:.1f}" for name, value in each["minutes"].items())
            steps = ", ".join(str(step or "-") for step in each["reached"].values())
            times.add_row(arm, str(each["seed"]), str(each["temperature"]), minutes, steps)
    console = Console(width=140)
    console.print(table)
    console.print(times)


def _over_seeds(records: Sequence[Mapping[str, Any]]) -> str:
    """The change with an interval over seeds (Student's t): what another seed may bring."""
    if len(records) < 2:
        return "-"
    pairs = [[success(successes([each], phase)).mean for phase in ("before", "after")] for each in records]
    return signed(student([after - before for before, after in pairs]))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings of all arms")
    parser.add_argument("--recipe", default="smollm2_lora", help="default: %(default)s")
    parser.add_argument("--seeds", default="0", help="none with --seeds '' (default: %(default)s)")
    parser.add_argument("--arms", default=BASE, help=f"of {', '.join(ARMS)}; default: %(default)s")
    parser.add_argument("--out", type=Path, help="default: runs/real_model, with --quick a folder next to it")
    parser.add_argument("--quick", action="store_true", help="a tiny version that only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write what is kept of all runs here")
    parser.add_argument(
        "--add", type=Path, nargs="+", default=[], metavar="PATH", help="runs that --json has kept"
    )
    parser.add_argument("--figure", type=Path, metavar="PATH", help="draw all runs here (.png, .svg, .pdf)")
    args = parser.parse_args(argv)
    arms, seeds = args.arms.split(","), [int(seed) for seed in args.seeds.split(",") if seed]
    if unknown := sorted(set(arms) - set(ARMS)):
        parser.error(f"unknown arms {unknown}; there are {', '.join(ARMS)}")
    if BASE not in arms and not ALONE.issuperset(arms):
        parser.error(f"the arms begin with the warm start of {BASE}: add it to --arms")
    out = args.out or Path("runs/real_model-quick" if args.quick else "runs/real_model")
    general = [*(QUICK if args.quick else []), *args.overrides]
    load_config(args.recipe, general)  # a wrong setting is refused before any run
    records = [each for path in args.add for each in json.loads(path.read_bytes())]
    wanted = [*((each["arm"], each["seed"]) for each in records), *product(arms, seeds)]
    if twice := [f"{arm}, seed {seed}" for (arm, seed), count in Counter(wanted).items() if count > 1]:
        parser.error(f"{'; '.join(twice)}: twice among the runs, which would count them as two")
    for seed in seeds:
        base = None
        for arm in sorted(arms, key=list(ARMS).index):
            settings = [*general, *settings_of(arm, seed, out, base)]
            run = read_run(finished(out, arm, seed, args.recipe, settings))
            base = run if arm == BASE else base
            records.append(record_of(arm, run, base))
    report(records)
    if args.figure:
        learning_figure.draw(records, BASE, args.figure)
    if args.json:
        lines = ",\n".join(json.dumps(each) for each in records)
        args.json.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
