"""Grades a short answer in words or figures: the box of the closing agent against the truth."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mappa_env.parsing import last_boxed, split_thinking
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

MAX_BOX = 300
"""Longest box, in characters, that is judged."""
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}")
_WORD = re.compile(r"[^\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})


def plain(text: str) -> str:
    """The words of an answer without case, accents, punctuation and leading articles; empty: no answer."""
    text = _WRAPPED.sub(r"\1", text).replace("'", "").replace("’", "")
    text = unicodedata.normalize("NFKD", text)
    words = _WORD.findall("".join(c for c in text if not unicodedata.combining(c)).casefold())
    while len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    return " ".join(words)


class TextGrader:
    """Compares the last box of the last action with ``task.truth["answer"]``, word by word."""

    def grade(self, task: Task, actions: Sequence[ActionRecord], workspace: Workspace | None) -> Outcome:
        """See ``Grader.grade``."""
        gold = str(task.truth["answer"])
        found = self.answer(actions)
        if found is None:
            return Outcome(
                0.0, False, "no_box", r"the closing action has no answer in \boxed{}", {"accuracy": 0.0}
            )
        right = found == plain(gold)
        said = f"boxed {found!r}, which is {'right' if right else f'not {gold!r}'}"
        return Outcome(float(right), right, "ok", said, {"accuracy": float(right)})

    def answer(self, actions: Sequence[ActionRecord]) -> str | None:
        """The words of the last box; None if there is none, or more than an answer has."""
        box = last_boxed(split_thinking(actions[-1].action)[1]) if actions else None
        return None if box is None or len(box) > MAX_BOX else plain(box) or None
