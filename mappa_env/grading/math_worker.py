"""A worker process that compares a box with a gold through math-verify. One JSON line in, one line out.

It runs by its path and imports nothing from ``mappa_env``. It uses only the LaTeX parser of math-verify,
because the plain-expression parser passes the text to ``eval``.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import resource
import signal
import sys
from typing import Any

MEMORY_BYTES = 2 << 30
ORPHAN_SECONDS = 10
"""The host kills a slow worker much earlier; this ends a worker whose host is gone."""


def main() -> None:
    """Answer ``{"box": str, "golds": [str]}`` with ``{"correct": bool, "readable": bool}`` until EOF."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps output of the libraries out of the protocol
    import math_verify

    logging.disable(logging.CRITICAL)
    latex = math_verify.LatexExtractionConfig(try_extract_without_anchor=False, boxed_match_priority=0)

    def read(text: str) -> list[Any]:
        parsed: list[Any] = math_verify.parse(
            rf"\boxed{{{text}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
        )
        return parsed

    read_gold = functools.lru_cache(maxsize=256)(read)
    math_verify.verify(read(r"\frac{1}{2}"), read("2/4"), timeout_seconds=None)  # loads the grammar
    print("ready", file=replies)
    for line in sys.stdin:
        signal.alarm(ORPHAN_SECONDS)
        request = json.loads(line)
        box = read(request["box"])
        correct = bool(box) and any(
            math_verify.verify(read_gold(gold), box, float_rounding=12, timeout_seconds=None)
            for gold in request["golds"]
        )
        signal.alarm(0)
        print(json.dumps({"correct": correct, "readable": bool(box)}), file=replies)


if __name__ == "__main__":
    main()
