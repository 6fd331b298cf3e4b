"""One figure of a part: its name, its value and the text of its check."""

from __future__ import annotations

Figure = tuple[str, str, str]


class Wrong(Exception):
    """Some figures are wrong. ``rows`` has all of them."""

    def __init__(self, rows: list[Figure]) -> None:
        super().__init__("; ".join(row[0] for row in rows if row[2].startswith("WRONG")))
        self.rows = rows


def at_most(value: float, limit: float, against: str) -> str:
    """The text of a check."""
    return f"{'ok' if value <= limit else 'WRONG'}: {value:.2g}, at most {limit:g} ({against})"
