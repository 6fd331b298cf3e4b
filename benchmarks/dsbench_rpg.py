"""RPG of result tables against the formula that DSBench publishes, written again here.

FOLDER is DSBench's unpacked ``save_performance.zip``, or any folder with GT, baseline and a table for each
model. Without it the tables are made up: a third of the results is missing, and some are nan.

    python benchmarks/dsbench_rpg.py [FOLDER] [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.data.tabular.dsbench.scoring import BASELINE, BEST, RESULT, score_folder
from mappa_env.errors import DataMissingError
from mappa_env.grading.metrics import METRICS
from mappa_env.types import Task

MODELS, QUICK = 100, 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the archive (default: made up)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} made-up tables instead of {MODELS}")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures to a file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or made_up(Path(scratch), QUICK if args.quick else MODELS)
        figures = compared(folder)
    print(f"{'model':28} {'RPG':>10} {'published':>10} {'capped':>10} {'completed':>10} {'published':>10}")
    for model, row in figures.items():
        numbers = f"{row['rpg']:10.6f} {row['formula_rpg']:10.6f} {row['rpg_capped']:10.6f}"
        print(f"{model:28.28} {numbers} {row['completed']:10.0f} {row['formula_completed']:10.0f}")
    apart = max(abs(row["rpg"] - row["formula_rpg"]) for row in figures.values())
    print(f"largest difference of RPG: {apart:.2g}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return int(apart > 1e-9 or any(row["completed"] != row["formula_completed"] for row in figures.values()))


def compared(folder: Path) -> dict[str, dict[str, float]]:
    """Figures of each model, ours and by the published formula."""
    found = {}
    for report in score_folder(folder, no_task):
        rpg, completed = published(folder, report.model)
        found[report.model] = {
            "rpg": report.rpg,
            "rpg_capped": report.rpg_capped,
            "formula_rpg": rpg,
            "completed": float(report.completed),
            "formula_completed": float(completed),
        }
    return found


def published(folder: Path, model: str) -> tuple[float, int]:
    """RPG and the number of results, as ``show_result.py`` defines them."""
    gains, completed = [], 0
    for name in competitions():
        texts = [folder / key / name / RESULT for key in (model, BASELINE, BEST)]
        gain = 0.0
        if texts[0].is_file():
            completed += 1
            score, baseline, best = (float(path.read_text()) for path in texts)
            gain = 0.0 if np.isnan(score) else max(0.0, (score - baseline) / (best - baseline))
        gains.append(gain)
    return sum(gains) / len(gains), completed


def made_up(root: Path, models: int) -> Path:
    """An archive with random results."""
    rng = np.random.default_rng(0)
    tables = {BEST: 1.0, BASELINE: 1.0, **{f"model-{number:03d}": 2 / 3 for number in range(models)}}
    for table, share in tables.items():
        for name, each in competitions().items():
            if rng.random() >= share:
                continue
            ideal = METRICS[each.published].ideal
            value = ideal if table == BEST else abs(ideal - float(rng.uniform(0.01, 0.99)))
            path = root / table / name / RESULT
            path.parent.mkdir(parents=True)
            path.write_text("nan" if share < 1 and rng.random() < 0.05 else str(value))
    return root


def no_task(name: str) -> Task:
    raise DataMissingError(f"result tables need no data of {name}.")


if __name__ == "__main__":
    sys.exit(main())
