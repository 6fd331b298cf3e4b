"""Derived seeds have the values that recorded runs were made with."""

from __future__ import annotations

from mappa_env.seeds import derived_seed
from mappa_rl import seeds

DERIVED = (3_662_037_204_992_188_296, 4_471_714_182_270_719_939, 2_965_762_945_767_702_954)


def test_derived_seeds_never_change() -> None:
    assert derived_seed(0, 1, 2) == DERIVED[0]
    assert derived_seed(3, 7, "task", 4) == DERIVED[1]
    assert derived_seed(12345, 0) == DERIVED[2]
    assert seeds.numbered(seeds.EVALUATION, 3) == 9_001_027_006
    assert (seeds.CALIBRATION, seeds.VALIDATION, seeds.ANCHORS) == (7_001, 8_001, 11_001)


def test_derived_seeds_differ_and_are_63_bits() -> None:
    found = {derived_seed(a, b) for a in range(40) for b in range(40)}
    assert len(found) == 1600
    assert all(0 <= seed < 2**63 for seed in found)
