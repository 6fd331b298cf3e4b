"""Releases in DSBench's own layout with made-up rows, one competition for each kind of metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mappa_env.types import Task

ROWS = 60
WAVE = [(i * 37) % ROWS for i in range(ROWS)]
WORDS = ("red green blue", "one two three", "sun moon", "cat dog bird", "salt")

ANSWERS = "test_answer.csv"
BIKE = "bike-sharing-demand"
WINNERS = ["id", "length", "winner_model_a", "winner_model_b", "winner_tie"]

Row = Callable[[int, int], list[object]]


def _picked(i: int, w: int) -> list[object]:
    return [f"t{i:03d}", f"{WORDS[w % 5]} {w}", WORDS[w % 5]]


KINDS: dict[str, tuple[list[str], Row]] = {
    "titanic": (["PassengerId", "Age", "Survived"], lambda i, w: [i, w, int(w > 30)]),
    BIKE: (
        ["datetime", "temp", "count"],
        lambda i, w: [f"2011-01-20 {i}:00", w, w * 3],
    ),
    "spaceship-titanic": (["PassengerId", "Spa", "Transported"], lambda i, w: [f"{i:04d}_01", w, w > 30]),
    "playground-series-s4e2": (["id", "Age", "NObeyesdad"], lambda i, w: [i, w, f"Level_{w // 20}"]),
    "playground-series-s3e13": (["id", "fever", "prognosis"], lambda i, w: [i, w, f"Illness_{w // 12}"]),
    "tweet-sentiment-extraction": (["textID", "text", "selected_text"], _picked),
    "lmsys-chatbot-arena": (
        WINNERS,
        lambda i, w: [i, w, int(w < 20), int(20 <= w < 40), int(w >= 40)],
    ),
    "us-patent-phrase-to-phrase-matching": (
        ["id", "distance", "score"],
        lambda i, w: [f"{i:016x}", w, w / 60],
    ),
    "porto-seguro-safe-driver-prediction": (["id", "ps_reg_01", "target"], lambda i, w: [i, w, int(w > 45)]),
}


def plain_release(root: Path, only: Sequence[str] | None = None, *, texts: bool = True) -> Path:
    """Write a release as DSBench publishes it, and return its folder."""
    for name in KINDS if only is None else only:
        columns, row = KINDS[name]
        rows = [row(i, w) for i, w in enumerate(WAVE)]
        sample = "sampleSubmission.csv" if name == "bike-sharing-demand" else "sample_submission.csv"
        competition(root.parent, name, columns, rows, sample, base=root)
        if not texts:
            (root / "task" / f"{name}.txt").unlink()
    return root


def competition(
    root: Path,
    name: str,
    columns: list[str],
    rows: list[list[object]],
    sample: str,
    *,
    base: Path | None = None,
) -> None:
    """Write a competition below ``base`` (default: ``root/data``). columns: id, one feature, targets.

    The first two thirds of ``rows`` are for training; the answers are in another order than the test table.
    """
    base = base or root / "data"
    cut = len(rows) * 2 // 3
    folder, answers = base / "data_resplit" / name, base / "answers" / name
    folder.mkdir(parents=True)
    answers.mkdir(parents=True)
    (base / "task").mkdir(exist_ok=True)
    (base / "task" / f"{name}.txt").write_text(f"The text of {name}.\n")
    table(folder / "train.csv", columns, rows[:cut])
    table(folder / "test.csv", columns[:2], [row[:2] for row in rows[cut:]])
    wanted = [columns[0], *columns[2:]]
    table(folder / sample, wanted, [[row[0], *(0 for _ in columns[2:])] for row in rows[cut:]])
    table(answers / "test_answer.csv", wanted, [[row[0], *row[2:]] for row in reversed(rows[cut:])])


def table(path: Path, header: Sequence[object], rows: Sequence[Sequence[object]]) -> None:
    """Write a CSV file."""
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")


def rewrite(path: Path, change: Callable[[list[list[str]]], object]) -> None:
    """Change the rows of a table, its header first."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("\n".join(",".join(row) for row in rows) + "\n")


def perfect(task: Task) -> bytes:
    """The submission that repeats the answers."""
    return str(task.truth["answers_csv"]).encode()
