"""A task loader: ``tasks: {loader: "loader.py:load"}`` in card.yaml."""

from mappa_env.data import ListTaskSet
from mappa_env.types import Task


def load(split: str, *, count: int = 32) -> ListTaskSet:
    """``count`` numbers; training and evaluation share none."""
    first = {"train": 0, "eval": 10_000}[split]
    tasks = [
        Task(
            id=f"n{number}",
            prompt=f"Is {number} even or odd?",
            metric="exact_match",
            topic="parity",
            split=split,
            truth={"answer": "odd" if number % 2 else "even"},
        )
        for number in range(first, first + count)
    ]
    return ListTaskSet("parity", split, tasks)
