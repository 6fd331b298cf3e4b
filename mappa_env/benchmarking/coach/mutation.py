"""What a mutation is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

Kind = Literal["file", "code", "value", "text"]
"""What is wrong: a file is not there, misnamed or of the wrong form; the code does not run or prints nothing;
everything has the right form and a wrong content; the words do not say what was done."""

Mutate = Callable[[str, np.random.Generator], str | None]

FENCE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
PRINTED = re.compile(r"^(print\()(.+)(\))$")


class Mutation(NamedTuple):
    kind: Kind
    mutate: Mutate
