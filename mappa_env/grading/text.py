"""Grades a short answer in words or figures: the box of the closing agent against the truth."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mappa_env.parsing import last_boxed, split_thinking
from mappa_env.types import ActionRecord, Outcome, Task

if TYPE_CHECKING:
    from mappa_env.workspace.workspace import Workspace

MAX_BOX = 300
"""Longest box, in characters, that is judged."""
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}")
_ARTICLES = frozenset({"a", "an", "the"})
_ACCENTED = ("LATIN", "GREEK", "CYRILLIC")
"""Scripts whose letters are the same without their accents; in others a mark makes another letter."""
_SIGNS = str.maketrans({"\u2212": "-", "\u2044": "/", "'": None, "\u2019": None})
_JOINING = "-+#%./,"
"""Signs that may belong to a number or a word; all others part words."""
_GROUPED = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_POINT = re.compile(r"(?<![^\s-])\.(?=[0-9])")
_TOKEN = re.compile(
    r"""(?:(?<!\S)-)? [0-9]+ (?:[./,][0-9]+)* (?:[ ]?%)?  # -5, 3.5, 1/2, 5 %
    | [^\s+#%./,-]+ (?: [+#]+ | (?: (?<=\b[^\W\d_]) | (?<=\b[^\W\d_]{2}) ) - (?![^\s.,]) )?  # C++, A-, AB-
    """,
    re.VERBOSE,
)


def plain(text: str) -> str:
    """The words and numbers of an answer without case, accents, punctuation and leading articles.

    What changes a meaning stays: the sign, fraction and percent sign of a number, and the end of ``C++``,
    ``A-`` and ``AB+``. Empty: no answer.
    """
    text = unicodedata.normalize("NFKD", _WRAPPED.sub(r"\1", text).translate(_SIGNS)).translate(_SIGNS)
    text = unicodedata.normalize("NFC", "".join(_unaccented(text))).casefold()
    text = "".join(c if _is_part(c) else " " for c in text)
    text = _POINT.sub("0.", _GROUPED.sub("", text))
    words = [found.group().replace(" ", "") for found in _TOKEN.finditer(text)]
    while len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    return " ".join(words)


def _unaccented(text: str) -> Iterator[str]:
    base = ""
    for char in text:
        if not unicodedata.combining(char):
            base = char
        elif unicodedata.name(base, "").startswith(_ACCENTED):
            continue
        yield char


def _is_part(char: str) -> bool:
    """Whether it is a letter, a digit, a mark on one, or a sign that may belong to them."""
    return char.isalnum() or char in _JOINING or unicodedata.category(char)[0] == "M"


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
