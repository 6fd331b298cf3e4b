"""No number that a plan accepts ends it with a traceback, and the others are refused by name."""

from __future__ import annotations

from math import inf, isfinite, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_rl.config import load_config
from mappa_rl.config.environment import env_card
from mappa_rl.errors import ConfigError
from mappa_rl.planning.figures import FRACTIONS, HARDWARE, RANGE, found_figures
from mappa_rl.planning.machines import MOST_GPUS, MOST_SANDBOXES, VERDICTS, Machines
from mappa_rl.planning.numbers import check_range
from mappa_rl.planning.workload import workload
from plans import plan_of

ASKED = workload(load_config("mathchat"), env_card("mappa/MathChat-v0"), True)
FIGURES = {figure.key: figure for group in (HARDWARE, ASKED) for figure in group}


def most(key: str) -> float:
    return 1.0 if FIGURES[key].unit in FRACTIONS else RANGE[1]


EXTREMES = st.dictionaries(st.sampled_from(sorted(FIGURES)), st.sampled_from(["least", "most"]), min_size=1)


@settings(max_examples=25, deadline=None)
@given(
    EXTREMES,
    st.sampled_from([Machines(8), Machines(8, 4), Machines(8, 4, 10**14, MOST_SANDBOXES, VERDICTS[0])]),
    st.integers(0, 1),
)
def test_the_least_and_the_most_of_any_figure_give_a_plan_or_a_refusal(
    chosen: dict[str, str], machines: Machines, staleness: int
) -> None:
    assumed = {key: RANGE[0] if end == "least" else most(key) for key, end in chosen.items()}
    words = ("algo.importance_sampling=tis",)
    try:
        found = plan_of("mathchat", machines, *words, staleness=staleness, **assumed)
    except ConfigError as error:
        if "no placement of this recipe fits" in str(error):
            return
        raise
    for each in (found.best, *(other for _, other in found.others)):
        assert isfinite(each.step.seconds)
        assert each.step.seconds > 0
    assert isfinite(found.bottleneck.speedup)


@pytest.mark.parametrize("key", sorted(FIGURES))
@pytest.mark.parametrize("value", [0.0, -1.0, 1e-300, 1e300, inf, -inf, nan])
def test_a_figure_out_of_range_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"--assume {key}=.* must be "):
        found_figures({key: value}, HARDWARE, ASKED)


def test_a_fraction_is_no_percentage() -> None:
    with pytest.raises(ConfigError, match=r"learn_utilisation=22 must be at most 1\."):
        found_figures({"learn_utilisation": 22.0}, HARDWARE, ASKED)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (nan, "--x nan must be a finite number."),
        (inf, "--x inf must be a finite number."),
        (0.5, "--x 0.5 must be at least 1."),
        (1001, "--x 1001 must be at most 1,000."),
    ],
)
def test_a_number_out_of_range_is_named_with_the_bound(value: float, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_range("--x ", value, 1, 1000)
    assert str(refused.value) == said
    check_range("--x ", 1, 1, 1000)
    check_range("--x ", 1000, 1, 1000)


def test_more_gpus_than_a_plan_is_for_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be at most 100,000"):
        Machines(MOST_GPUS + 1)
