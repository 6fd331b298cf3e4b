"""Mutations: each maps the text of a good action to the same text with one mistake.

Mutations know Python code and some conventions of written answers, but not the task: only running the episode
shows whether a mutation does harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

Kind = Literal["file", "code", "value", "text"]
"""The mistake: a missing, misnamed or malformed file; code that fails or prints nothing; a wrong value in the
right form; words that misreport what was done."""

Mutate = Callable[[str, np.random.Generator], str | None]
"""Returns None if the mistake does not apply to the text."""

FENCE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
PRINTED = re.compile(r"^(print\()(.+)(\))$")


class Mutation(NamedTuple):
    """A mutation and its kind of mistake."""

    kind: Kind
    mutate: Mutate
