"""The range of a number that a user states for a plan."""

from __future__ import annotations

from math import isfinite

from mappa_rl.errors import ConfigError


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raises ConfigError with ``name`` unless ``value`` is a number from ``least`` to ``most``."""
    shown = f"{name}{value if isinstance(value, int) else format(value, 'g')}"
    if not isfinite(value):
        raise ConfigError(f"{shown} must be a finite number.")
    if value < least:
        raise ConfigError(f"{shown} must be at least {least:,}.")
    if value > most:
        raise ConfigError(f"{shown} must be at most {most:,}.")
