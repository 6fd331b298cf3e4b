"""Hidden answers: joins with tables within reach, the generators themselves, and what other episodes left."""

from __future__ import annotations

import csv
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from attacks.harness import LIMITS, Attack, battery, table
from attacks.levels import LEVELS, Sandboxes
from mappa_env.data.tabular import load, sources
from mappa_env.data.tabular.instance import build
from mappa_env.grading.spelling import canonical
from mappa_env.sandbox import Sandbox
from mappa_env.types import Task

JOIN = Path(__file__).with_name("join.py").read_text(encoding="utf-8")
REAL = ("iris", "wine", "breast_cancer", "diabetes", "digits")

ATTACKS = [
    *table("""
### import_the_generators
import numpy
from mappa_env.data.tabular import load
print('GOT', load('eval').get('eval-churn-003').truth['answers_csv'][:40])
### import_a_card
import numpy, envs_registry
print('GOT', envs_registry.folders())
### load_shipped_tables
import numpy
from sklearn import datasets
print('GOT', datasets.load_wine().target[:9], datasets.load_diabetes().target[:9])
### search_files_for_tables
import numpy, os, sys
for library in (folder for folder in sys.path if folder.endswith('-packages')):
    for folder, _, names in os.walk(library):
        for name in names:
            if name.endswith(('.csv', '.csv.gz', '.arff.gz', '.parquet')):
                try:
                    open(os.path.join(folder, name), 'rb').read(1)
                    print('GOT', name)
                except OSError:
                    pass
"""),
    *table(
        """
### search_memory_for_tables
import gc, sys
import numpy as np, sklearn.datasets
for each in gc.get_objects():
    if isinstance(each, np.ndarray) and each.ndim and len(each) in (150, 178, 442, 569, 1797):
        print('GOT', each.shape)
for module in list(sys.modules.values()):
    if getattr(module, '__name__', '').startswith(('mappa_', 'envs_registry')):
        print('GOT', module)
""",
        unproven="a process that loaded no table has none to find",
    ),
    Attack(
        "leave_answers_where_tables_were",
        "import sklearn, os\nd = os.path.dirname(sklearn.__file__) + '/datasets/data/'\n"
        "for name in ('wine_data.csv', 'note.txt'):\n"
        "    try:\n        open(d + name, 'w').write('$token')\n    except OSError:\n        pass",
        then="import sklearn, os\nd = os.path.dirname(sklearn.__file__) + '/datasets/data/'\n"
        "for name in ('wine_data.csv', 'note.txt'):\n"
        "    try:\n        print(open(d + name).read())\n    except OSError:\n        pass",
        unproven="it would change the installed packages",
    ),
]
test_canary, test_contained = battery(ATTACKS)


def answered(sandbox: Sandbox, task: Task, memory: bytes = b"") -> bool:
    """Whether the join names at least half of the hidden answers, with nine of ten claims right."""
    with sandbox.open_workspace() as workspace:
        for name in ("train.csv", "test.csv"):
            workspace.put(name, task.files[name])
        if memory:
            workspace.put("memory.pkl", memory)
        result = sandbox.run(workspace, JOIN, LIMITS)
        assert result.status == "ok", result
        claims = {int(i): answer for i, answer in json.loads(workspace.read("claims.json", 2**20)).items()}
    truth = [row[1] for row in csv.reader(io.StringIO(task.truth["answers_csv"].decode()))][1:]
    right = sum(_same(truth[i], claim, task.family) for i, claim in claims.items())
    return len(claims) >= len(truth) / 2 and right >= 0.9 * len(claims)


def _same(truth: str, claim: str, family: str) -> bool:
    if family == "regression":
        return abs(float(truth) - float(claim)) <= 1e-3 * max(abs(float(truth)), 1e-9)
    return canonical(truth) == canonical(claim)


@pytest.fixture(scope="module")
def memory() -> bytes:
    """The real tables, as an agent would know them that has them by heart."""
    return pickle.dumps({name: np.column_stack(sources._table(name)) for name in REAL})


@pytest.fixture
def full(sandboxes: Sandboxes) -> Sandbox:
    return sandboxes["full"]


def _shuffled(
    rows: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(len(rows))
    return rows[order], groups[order]


def _plain(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x


def _scaled(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x * rng.uniform(2, 9, x.shape[1]) + rng.normal(size=x.shape[1])


def _bent(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return -np.sign(x) * np.abs(x) ** 1.3


@pytest.mark.parametrize("rescaled", [_plain, _scaled, _bent])
def test_real_rows_would_be_found(
    rescaled: object, full: Sandbox, memory: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The join works: on tasks whose rows are those of the real tables, whatever their columns' scales."""
    monkeypatch.setattr(sources, "mixed", _shuffled)
    monkeypatch.setattr(sources, "rescaled", rescaled)
    tasks = [build(sources.SOURCES[name], "eval", i, "eval") for name in ("wine", "cellar") for i in range(3)]
    assert sum(answered(full, task, memory) for task in tasks) >= 4


def test_mixed_rows_are_not_found_even_on_their_own_scale(
    full: Sandbox, memory: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "rescaled", _plain)
    tasks = [build(sources.SOURCES[name], "eval", i, "eval") for name in ("wine", "cellar") for i in range(3)]
    assert not any(answered(full, task, memory) for task in tasks)


@pytest.mark.parametrize(
    "level", [pytest.param(each, marks=[pytest.mark.large] * (each != LEVELS[0])) for each in LEVELS]
)
def test_no_evaluation_task_can_be_answered_from_inside(
    level: str, sandboxes: Sandboxes, memory: bytes
) -> None:
    """Every task, by an agent that also knows the real tables by heart. It was 83 of 157 and more."""
    tasks, sandbox = load("eval"), sandboxes[level]
    found = [task_id for task_id in tasks.ids if answered(sandbox, tasks.get(task_id), memory)]
    assert len(tasks.ids) == 157
    assert found == []


def test_without_the_salt_the_generators_draw_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that knows the generators by heart, and the task's id, still lacks the seed."""
    known = load("eval").get("eval-churn-003")
    monkeypatch.setattr("mappa_env.data.tabular.seeding.SALT", "guessed")
    again = build(sources.SOURCES["churn"], "eval", 3, "eval")
    cells = [set(task.files["test.csv"].replace(b"\n", b",").split(b",")) for task in (known, again)]  # type: ignore[union-attr]
    decimals = [{cell for cell in some if b"." in cell} for some in cells]
    assert len(decimals[0]) > 100
    assert len(decimals[0] & decimals[1]) < 5
