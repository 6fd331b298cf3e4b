"""Derived seeds never change: recorded runs depend on them."""

from __future__ import annotations

import pytest

from mappa_env.seeds import derived_seed


@pytest.mark.parametrize(
    ("parts", "bits", "value"),
    [
        ((7, "solver_0", 0), 31, 285185891),
        ((2**63 - 1, "coder_0", 1), 31, 568598253),
        ((7, "task"), 64, 15251664494089616007),
        ((7, 3), 63, 6579903082405569959),
    ],
)
def test_the_values_are_pinned(parts: tuple[object, ...], bits: int, value: int) -> None:
    assert derived_seed(*parts, bits=bits) == value
