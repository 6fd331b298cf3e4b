"""The README's example is the file in ``examples/`` and prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_the_example_and_its_real_output() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = ROOT / "examples" / "quickstart.py"
    assert f"```python\n{example.read_text(encoding='utf-8')}```" in readme
    shown = re.search(r"The output:\n\n```text\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(example)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == shown[1]


def test_every_document_that_is_linked_exists() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
