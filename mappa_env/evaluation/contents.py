"""The contents of the tasks that an evaluation plays: it must not mix two tasks that share an id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mappa_env.cards import Card
from mappa_env.data import TaskSet
from mappa_env.data.content import changed_parts, content_of
from mappa_env.errors import DataError, EvaluationError
from mappa_env.evaluation.episodes import Played
from mappa_env.evaluation.sources import check_sources, sources_of
from mappa_env.types import Task


class Contents:
    """What each task was when it was first played, and each card when this began. Thread-safe."""

    def __init__(
        self, played: Iterable[Played], sources: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """``sources``: environment -> ``sources_of`` its card; none where cards are read once."""
        self._known = known(played)
        self._sources = sources or {}

    def admit_card(self, env: str, card: Card, options: Mapping[str, Any]) -> None:
        """Raises EvaluationError if the ``card`` of ``env`` is no longer what it was."""
        check_sources(env, self._sources[env], sources_of(card, options))

    def admit(self, env: str, task: Task) -> str:
        """The content of ``task``. Raises EvaluationError if another one was played under its id."""
        try:
            now = content_of(task)
        except DataError as error:
            raise EvaluationError(f"task {task.id} of {env}: {error}") from error
        before = self._known.setdefault((env, task.id), now)
        if before != now:
            raise EvaluationError(
                f"task {task.id} of {env} has another {_parts([(before, now)])} than when it was first "
                "played here: restore its file, or choose another --out."
            )
        return now


def known(played: Iterable[Played]) -> dict[tuple[str, str], str]:
    """(environment, task) -> its content, where an episode says it."""
    return {(each.env, each.task_id): each.content for each in played if each.content}


def check_contents(folder: Path, played: Iterable[Played], sets: Mapping[str, TaskSet]) -> None:
    """Raises EvaluationError if tasks of ``folder`` are no longer what they were when they were ``played``.

    ``sets``: environment -> its tasks now. Episodes of earlier versions do not say what theirs were.
    """
    for env, tasks in sets.items():
        before = {task: content for (own, task), content in known(played).items() if own == env}
        now = {task: content_of(tasks.get(task)) for task in before}
        if changed := sorted(task for task in before if before[task] != now[task]):
            parts = _parts([(before[task], now[task]) for task in changed])
            raise EvaluationError(
                f"{folder} holds episodes of {env} on tasks that now have another {parts} ({some(changed)}): "
                "the task files have changed, or the version of mappa that generates them. Restore that and "
                "run the same command again, or choose another --out."
            )


def some(tasks: Sequence[str]) -> str:
    """The first of ``tasks``, and how many there are besides."""
    return tasks[0] if len(tasks) == 1 else f"{tasks[0]} and {len(tasks) - 1} more"


def _parts(pairs: Iterable[tuple[str, str]]) -> str:
    """What differs in some of the ``pairs``, in words: ``text and answer``."""
    found = dict.fromkeys(part for before, now in pairs for part in changed_parts(before, now))
    return " and ".join(found)
