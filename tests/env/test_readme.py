"""The README's example is the file in ``examples/`` and prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys

from paths import ROOT


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
