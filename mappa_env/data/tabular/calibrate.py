"""``python -m mappa_env.data.tabular.calibrate``: find tasks whose reference barely beats the constant.

Prints the text of ``weak.py``. Run it again after every change of a source or of ``instance.build``.
"""

from __future__ import annotations

from mappa_env.data.tabular import SOURCES, SPLITS, VALIDATION, candidates
from mappa_env.data.tabular.instance import build
from mappa_env.grading.metrics import metric_named
from mappa_env.types import Task

LEAST = 0.2
"""The smallest ``strength`` of a task that is kept."""


def strength(task: Task) -> float:
    """The position of the reference between the constant (0) and a perfect score (1)."""
    ideal = metric_named(task.metric).ideal
    constant, reference = float(task.truth["constant"]), float(task.truth["reference"])
    return (reference - constant) / (ideal - constant) if ideal != constant else 0.0


def main() -> None:
    """Print the text of ``weak.py``."""
    weak = []
    for split in (*SPLITS, VALIDATION):
        for task_id in candidates(split):
            _, name, index = task_id.split("-")
            if strength(build(SOURCES[name], split, int(index), "train")) < LEAST:
                weak.append(task_id)
    print(
        '"""Tasks that are left out: their reference hardly beats the constant. Written by ``calibrate``."""'
    )
    print("\nfrom __future__ import annotations\n\nWEAK: frozenset[str] = frozenset(\n    {")
    for task_id in sorted(weak):
        print(f'        "{task_id}",')
    print("    }\n)")


if __name__ == "__main__":
    main()
