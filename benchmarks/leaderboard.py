"""A leaderboard page: a trained run before and after training, the card's experts, and trivial baselines.

All play the same tasks of the run's environment, drawn with the same seed. The experts know the answers, and
a model that does not beat the trivial ones has shown nothing.

    python benchmarks/leaderboard.py RUN [--limit 400] [--temperature T] [--out FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from mappa_rl.config import load_config
from mappa_rl.config.run_folder import CONFIG

OTHERS = {
    "experts": "scripted:expert",
    "first-number": "trivial:first-number",
    "last-number": "trivial:last-number",
    "largest-number": "trivial:largest-number",
}
QUICK = 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run with a checkpoint")
    parser.add_argument("--limit", type=int, default=400, metavar="N", help="tasks (default: 400)")
    parser.add_argument(
        "--temperature", type=float, default=0.3, metavar="T", help="of the run (default: 0.3)"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws tasks and actions (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: RUN/leaderboard")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} tasks")
    args = parser.parse_args()
    if not (args.run / CONFIG).is_file():
        parser.error(f"{args.run} is not the folder of a run: it has no {CONFIG}.")
    config, out = load_config(args.run / CONFIG), args.out or args.run / "leaderboard"
    tasks = ["--limit", str(QUICK if args.quick else args.limit), "--seed", str(args.seed)]
    trained = ["eval", str(args.run), "--benchmark", config.env.id, "--out", str(out), *tasks]
    call("mappa_rl.cli", *trained, f"eval.temperatures=[{args.temperature}]")
    for name, model in OTHERS.items():
        same = ["--prompts", config.env.prompts, "--out", str(out / name), *tasks]
        call("mappa_env.cli", "eval", config.env.id, "--model", model, *same)
    folders = sorted(str(path.parent) for path in out.glob("*/evaluation.json"))
    page, rows = out / "leaderboard.html", out / "leaderboard.json"
    call("mappa_env.cli", "leaderboard", *folders, "--html", str(page), "--json", str(rows))
    return 0


def call(module: str, *words: str) -> None:
    """Run a command of this package as a user would. Raises CalledProcessError if it fails."""
    print("$", module.partition(".")[0].replace("_", "-"), *words, flush=True)
    subprocess.run([sys.executable, "-m", module, *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
