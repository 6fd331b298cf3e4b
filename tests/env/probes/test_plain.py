"""What hostile code prints in the name of the exporter is read strictly, or not at all."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from mappa_env.probes.plain import MalformedError, records, text

NUMBERS = base64.b64encode(np.array([[1.0], [np.nan]]).tobytes()).decode()
TABLE = {
    "rows": 2,
    "cols": 2,
    "kept": 2,
    "names": ["a", "b"],
    "mixed": False,
    "named": True,
    "kinds": "nt",
    "numbers": NUMBERS,
    "texts": [["x", None]],
    "nan": 2,
    "inf": 0,
    "index": "",
}


def line(**record: Any) -> str:
    found = {"step": 0, "type": "DataFrame", "table": TABLE, "unfit": "", **record}
    again = {"again": 0, "refused": "", "marked": False}
    return f"mark {json.dumps(found)}\nmark {json.dumps(again)}\n"


def test_what_an_exporter_prints_is_read() -> None:
    table = records("noise\n" + line(), "mark")[0].table
    assert table is not None
    assert table.column(0)[0] == 1.0
    assert table.column(1).tolist() == ["x", None]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": 1},
        {"rows": 2.0},
        {"rows": True},
        {"rows": 10**40},
        {"kept": 3},
        {"cols": 3},
        {"names": ["a"]},
        {"names": ["a", 1]},
        {"names": "ab"},
        {"kinds": "nx"},
        {"mixed": None},
        {"kinds": "tt"},
        {"numbers": NUMBERS[:-4]},
        {"numbers": "!" * 24},
        {"numbers": 7},
        {"texts": []},
        {"texts": [["x"]]},
        {"texts": [[["x"], None]]},
        {"nan": "none"},
    ],
)
def test_a_table_that_contradicts_itself_is_an_error(change: dict[str, Any]) -> None:
    found = records(line(table={**TABLE, **change}), "mark")[0]
    assert (found.table, bool(found.error)) == (None, True)


def test_missing_values_are_counted_whatever_is_said() -> None:
    table = records(line(table={**TABLE, "nan": 0}), "mark")[0].table
    assert table is not None
    assert table.nan == 2


@pytest.mark.parametrize(
    "junk", ["{", "[1]", "null", "1", '"x"', "[" * 100_000, '{"step": []}', '{"step": -1}']
)
def test_junk_is_no_record(junk: str) -> None:
    assert records(f"mark {junk}\n", "mark") == {}


def test_the_first_record_of_a_step_counts_and_other_marks_do_not() -> None:
    found = records("krma {}\n" + line(type="first") + line(type="second"), "mark")
    assert found[0].kind == "first"


def test_text_is_printable_and_bounded() -> None:
    assert text("a\nb\x1b[31m\u202e" + "x" * 999, 40).isprintable()
    assert len(text("\n" * 999, 40)) == 40
    with pytest.raises(MalformedError):
        text(7, 40)
