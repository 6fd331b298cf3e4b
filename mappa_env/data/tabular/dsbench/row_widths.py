"""How many cells the rows of a CSV have, for cells of any length.

The csv module has one limit of a cell for the whole process, so raising it would change what others read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TO_END_OF_QUOTES = re.compile(r'[^"]*+(?:""[^"]*+)*+"')


def row_widths(lines: Iterable[str]) -> Iterator[int]:
    """The number of cells of each row that is not empty, as ``csv.reader(lines)`` counts them.

    lines: each with its end, as a file opened with ``newline=""`` yields them.
    """
    width, quoted = 0, False
    for line in lines:
        at = 0
        if not quoted:
            if not line.strip("\r\n"):
                continue
            width, quoted = 1, line.startswith('"')
            at = int(quoted)
        while True:
            if quoted:
                end = _TO_END_OF_QUOTES.match(line, at)
                if end is None:
                    break
                quoted, at = False, end.end()
            comma = line.find(",", at)
            if comma < 0:
                break
            width, quoted = width + 1, line.startswith('"', comma + 1)
            at = comma + 1 + quoted
        if not quoted:
            yield width
    if quoted:
        yield width
