"""What software a result was made with: package versions, and the commit of a checkout."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("mappa", "torch", "transformers", "deepspeed", "numpy", "gymnasium", "pettingzoo", "scikit-learn")
CHECKOUT = Path(__file__).parents[2]
"""The folder that holds the package: a Git checkout during development."""


def versions() -> dict[str, str]:
    """Return Python's version and those of the packages that a result may depend on.

    ``-`` stands for a package that is not installed. In a Git checkout ``commit`` is added.
    """
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "-"
    commit = git_commit(CHECKOUT)
    return found | ({"commit": commit} if commit else {})


def git_commit(checkout: Path) -> str:
    """Return the commit of a checkout, with ``+changes`` if files differ from it; empty without Git."""
    if not (checkout / ".git").exists():
        return ""
    try:
        commit, changes = (
            subprocess.run(
                ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True, timeout=30
            ).stdout.strip()
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "-uno"))
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{commit}+changes" if changes else commit
