"""Packages that a part may need and a machine may lack."""

from __future__ import annotations

import importlib.util


class Skipped(Exception):
    """This machine lacks what the part needs."""


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise Skipped(f"{package} is not installed")
