"""Draws the skill scale: what scores earn when the reference is far from the constant, close to it, or below.

python benchmarks/skill_scale.py [--figure docs/skill_scale.svg]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mappa_env.grading.metrics import LEAST_GAP, MAX_SKILL, skill

CONSTANT = 0.9
"""Accuracy of the best constant."""
REFERENCES = (0.9, 0.91, 0.92, 0.95)
SCORES = (0.905, 0.91, 0.93)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--figure", type=Path, help="write the figure here")
    options = parser.parse_args(argv)
    print(f"accuracy, constant {CONSTANT}: skill by score (rows) and reference (columns)")
    print("score     " + " ".join(f"{reference:7.4f}" for reference in REFERENCES))
    for score in SCORES:
        found = [skill(score, CONSTANT, reference, "accuracy") for reference in REFERENCES]
        print(f"{score:7.3f}   " + " ".join(f"{value:7.3f}" for value in found))
    if options.figure:
        draw(options.figure)
    return 0


def draw(path: Path) -> None:
    """Draw skill by score for several references, and by reference for several scores."""
    mpl.rcParams["svg.hashsalt"] = "skill"  # the same file each time
    picture = Figure(figsize=(9.5, 3.4), layout="constrained")
    left, right = picture.subplots(1, 2, sharey=True)
    scores = np.linspace(0.88, 1.0, 481)
    for reference in REFERENCES:
        left.plot(
            scores,
            [skill(float(score), CONSTANT, reference, "accuracy") for score in scores],
            label=f"reference {reference:g}",
        )
    left.set_xlabel(f"accuracy of the submission (constant {CONSTANT:g})")
    left.set_ylabel("skill")
    references = np.linspace(0.88, 1.0, 481)
    for score in SCORES:
        right.plot(
            references,
            [skill(score, CONSTANT, float(reference), "accuracy") for reference in references],
            label=f"submission {score:g}",
        )
    right.axvline(CONSTANT + LEAST_GAP * (1 - CONSTANT), color="0.7", linewidth=1)
    right.set_xlabel("accuracy of the reference")
    for axes in (left, right):
        axes.set_ylim(-0.03, MAX_SKILL + 0.1)
        axes.legend(frameon=False, fontsize=8)
    picture.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
