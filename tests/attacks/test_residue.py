"""The documented residue of ``landlock`` equals the asserted one, and every row of it is an attack."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from attacks.residue import RESIDUE

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
CATEGORIES = sorted(Path(__file__).parent.glob("test_*.py"))


def rows() -> str:
    """The expected table in docs/security.md."""
    lines = [f"| `{name}` | {what} | {why} |" for name, (what, why) in RESIDUE.items()]
    return "\n".join(["| attack | what leaks | why |", "|---|---|---|", *lines])


def test_the_document_holds_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(r"<!-- residue: begin[^>]*-->\n(.*)\n<!-- residue: end -->", text, re.DOTALL)
    assert found, "docs/security.md lacks the marks around its residue table"
    assert found[1] == rows(), f"docs/security.md must contain:\n{rows()}"


def test_every_row_is_an_attack() -> None:
    modules = [
        importlib.import_module(f"attacks.{path.stem}") for path in CATEGORIES if path.stem != __name__
    ]
    names = [
        attack.name
        for module in modules
        for attack in getattr(module, "ATTACKS", ())
        if hasattr(attack, "name")
    ]
    assert set(RESIDUE) <= set(names)


def test_the_suite_is_large() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in CATEGORIES)
    assert len(re.findall(r"^### \w+$", text, re.MULTILINE)) > 120
    missing = [path.name for path in CATEGORIES if path.name not in DOCUMENT.read_text(encoding="utf-8")]
    assert set(missing) <= {"test_residue.py", "test_as_nobody.py"}
