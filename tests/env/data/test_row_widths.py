"""Cells of rows are counted as csv counts them, whatever their length, and nobody else's limit changes."""

from __future__ import annotations

import csv
import io

from hypothesis import example, given
from hypothesis import strategies as st

from mappa_env.data.tabular.dsbench.row_widths import row_widths

PIECES = st.sampled_from([",", '"', '""', "\n", "\r\n", "\r", "a", " ", "\x00", "\x0b", "\u2028", "é", '","'])


@given(st.lists(PIECES, max_size=40).map("".join))
@example('a,"b\n""c"",d"\n1\n')
@example('"a"b",c\n')
@example('a"b,c"\n\n"')
def test_widths_are_those_that_csv_counts(text: str) -> None:
    rows = csv.reader(io.StringIO(text, newline=""))
    assert list(row_widths(io.StringIO(text, newline=""))) == [len(row) for row in rows if row]


def test_cells_longer_than_csv_allows() -> None:
    before = csv.field_size_limit()
    long = '"' + 'say ""x"",\n' * 30_000 + '"'
    assert list(row_widths(io.StringIO(f"id,text\n1,{long}\n2\n", newline=""))) == [2, 2, 1]
    assert csv.field_size_limit() == before
