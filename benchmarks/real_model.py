"""Does a real language model learn from process rewards, and better than by other means in the same time?

    make llm
    .venv-vllm/bin/python benchmarks/real_model.py [--recipe smollm2_lora] [--seeds 0,1,2]
                          [--arms process,outcome,raft,imitation] [--quick] [--out FOLDER] [--json PATH]

``process`` is the recipe as it is. The others begin with its warm start:

* ``outcome``: the same steps, rewarded by the outcome alone.
* ``raft``: the same steps of rejection sampling: imitate the episodes that succeeded (arXiv 2304.06767).
* ``imitation``: more of the warm start's imitation, as many steps as fit the time that ``process`` trained.
* ``few_shot``: no demonstrations at all. The model as it is, prompts with worked examples, and the easiest
  level of the tasks, so its rates do not compare with the others'.

Rates are those of held-out tasks at the warm start's best temperature, which was chosen on training tasks. An
interrupted benchmark continues where it stopped: finished runs in --out are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compared import difference, rate, reached, signed, success
from rich.console import Console
from rich.table import Table
from runs import begins, finished

from mappa_rl.config import load_config
from mappa_rl.evaluation.results import Result
from mappa_rl.report.runs import RunData, read_run

BASE = "process"
ARMS: Mapping[str, list[str]] = {
    BASE: [],
    "outcome": ["env.shaping=outcome"],
    "raft": ["env.shaping=outcome", "algo.name=raft"],
    "imitation": ["run.steps=0", "warmstart.until=0"],
    "few_shot": ["warmstart.steps=0", f"env.id={Path(__file__).parent / 'mathchat_few_shot'}"],
}
QUICK = [
    "warmstart.episodes=30",
    "warmstart.steps=4",
    "warmstart.warmup_steps=1",
    "warmstart.check_every=2",
    "warmstart.check_episodes=4",
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
    if base is None or arm == "few_shot":
        return ARMS[arm]
    assert base.summary is not None
    best = base.config.eval.temperatures[0] if base.best is None else base.best
    evaluated = [f"eval.temperatures=[{best:g}]", "eval.calibration_temperatures=[]"]
    if arm != "imitation":
        return [*begins(out, arm, seed, BASE, None), *evaluated, *ARMS[arm]]
    steps = imitated(base)
    pace = base.summary.work["warm start"]["learner"] / steps
    more = max(round(base.summary.phases["training"] / pace), 2)
    start = (base.folder / "warmstart").resolve()
    return [
        f"model.kind={start}",
        *evaluated,
        *ARMS[arm],
        f"warmstart.steps={more}",
        "warmstart.warmup_steps=1",
        "warmstart.check_every=1",
    ]


def imitated(run: RunData) -> int:
    """The steps of its warm start."""
    facts = json.loads((run.folder / "warmstart" / "demonstrations.json").read_bytes())
    start = run.config.warmstart
    return next((step for step, rate in facts["checks"] if rate >= start.until), start.steps)


def rows(run: RunData, phase: str, temperature: float | None) -> Sequence[Result]:
    """Its held-out episodes; a run without calibration has one temperature."""
    found = [mine for (when, at), mine in run.results.items() if when == phase and temperature in (None, at)]
    return found[0]


def report(found: Mapping[str, Sequence[RunData]]) -> dict[str, Any]:
    """The tables, and their figures by arm."""
    table = Table(
        "arm", "seeds", "before", "after", "change, 95 %", f"against {BASE}", title="held-out success"
    )
    times = Table("arm", "seed", "T", "minutes by phase", "training reaches 50, 60, 70 % at step")
    figures: dict[str, Any] = {}
    ends: dict[str, dict[str, list[Result]]] = {}
    for arm, runs in found.items():
        ends[arm] = {"before": [], "after": []}
        for run in runs:
            base = next((each for each in found.get(BASE, ()) if each.seed == run.seed), None)
            # The warm start's result is the run's that made it; more imitation is compared with that too.
            first = base if arm == "imitation" and base is not None else run
            ends[arm]["before"] += rows(first, "before", first.best)
            ends[arm]["after"] += rows(run, "after", run.best)
    for arm, runs in found.items():
        before, after = (success(mine) for mine in ends[arm].values())
        compared = {"before": before, "after": after, "change": difference(*ends[arm].values())}
        against = "-"
        seeds = {run.seed for run in runs}
        if arm not in (BASE, "few_shot") and BASE in found:
            same = [row for row in ends[BASE]["after"] if row.run_seed in seeds]
            compared["against"] = difference(same, ends[arm]["after"])
            against = signed(compared["against"])
        table.add_row(arm, str(len(runs)), rate(before), rate(after), signed(compared["change"]), against)
        figures[arm] = {name: each._asdict() for name, each in compared.items()}
        figures[arm]["runs"] = [_run(run) for run in runs]
        for each in figures[arm]["runs"]:
            minutes = ", ".join(f"{name} {value:.1f}" for name, value in each["minutes"].items())
            steps = ", ".join(str(step or "-") for step in each["reached"].values())
            times.add_row(arm, str(each["seed"]), str(each["temperature"]), minutes, steps)
    console = Console(width=140)
    console.print(table)
    console.print(times)
    return figures


def _run(run: RunData) -> dict[str, Any]:
    assert run.summary is not None
    return {
        "seed": run.seed,
        "temperature": run.config.eval.temperatures[0] if run.best is None else run.best,
        "imitated": imitated(run) if (run.folder / "warmstart").is_dir() else 0,
        "minutes": {name: spent / 60 for name, spent in run.summary.phases.items()},
        "fractions": run.summary.fractions,
        "reached": {level: reached(run, level) for level in LEVELS},
        "curve": run.curve("success"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings of all arms")
    parser.add_argument("--recipe", default="smollm2_lora", help="default: %(default)s")
    parser.add_argument("--seeds", default="0", help="default: %(default)s")
    parser.add_argument("--arms", default=BASE, help=f"of {', '.join(ARMS)}; default: %(default)s")
    parser.add_argument("--out", type=Path, help="default: runs/real_model, with --quick a folder next to it")
    parser.add_argument("--quick", action="store_true", help="a tiny version that only shows that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    args = parser.parse_args(argv)
    arms, seeds = args.arms.split(","), [int(seed) for seed in args.seeds.split(",")]
    if unknown := sorted(set(arms) - set(ARMS)):
        parser.error(f"unknown arms {unknown}; there are {', '.join(ARMS)}")
    if BASE not in arms and arms != ["few_shot"]:
        parser.error(f"the arms begin with the warm start of {BASE}: add it to --arms")
    out = args.out or Path("runs/real_model-quick" if args.quick else "runs/real_model")
    general = [*(QUICK if args.quick else []), *args.overrides]
    load_config(args.recipe, general)  # a wrong setting is refused before any run
    folders: dict[str, list[Path]] = {arm: [] for arm in sorted(arms, key=list(ARMS).index)}
    for seed in seeds:
        base = None
        for arm, mine in folders.items():
            settings = [*general, *settings_of(arm, seed, out, base)]
            mine.append(finished(out, arm, seed, args.recipe, settings))
            if arm == BASE:
                base = read_run(mine[-1])
    figures = report({arm: [read_run(folder) for folder in mine] for arm, mine in folders.items()})
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
