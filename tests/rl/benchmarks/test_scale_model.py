"""The benchmark of the scale model fits what two runs say, and compares with what it has not seen."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mappa_rl.planning.step import predict
from paths import ROOT

sys.path.append(str(ROOT / "benchmarks"))
from scale_fit import Parameters, setup_of, together
from scale_model import FITTED, HELD_OUT, main

FOUND = Parameters(
    pass_s=0.01, request_s=0.0003, tokens=30.0, tokens_spread=0.4, actions=4.0, environment_s=0.001,
    processor_s=0.004, code_s=0.3, code_spread=0.4, coded=0.5, coach_s=1.0, learner_s=0.3, token_s=0.0003,
    sync_s=0.1,
)  # fmt: skip


def test_requests_beside_a_request_are_averaged_over_the_time_of_all() -> None:
    assert together([(0.0, 1.0), (5.0, 6.0)]) == pytest.approx(1.0)
    assert together([(0.0, 1.0), (0.0, 1.0)]) == pytest.approx(2.0)
    assert together([(0.0, 2.0), (1.0, 2.0)]) == pytest.approx(5 / 3)


def test_the_model_is_given_what_a_configuration_changes() -> None:
    plain = FITTED[1]
    seconds = predict(setup_of(FOUND, plain)).seconds
    assert predict(setup_of(FOUND, replace(plain, sandboxes=4))).bottleneck == "sandbox"
    assert predict(setup_of(FOUND, replace(plain, coach_calls=4))).bottleneck == "coach"
    assert predict(setup_of(FOUND, replace(plain, length=4.0))).seconds > 2 * seconds
    assert predict(setup_of(FOUND, replace(plain, staleness=1))).seconds < seconds


def test_no_configuration_is_both_fitted_and_held_out() -> None:
    assert len(HELD_OUT) >= 6
    assert not {replace(each, name="") for each in FITTED} & {replace(each, name="") for each in HELD_OUT}


@pytest.mark.large
def test_it_runs_and_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--json", str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.index("predicted: ") < shown.index("measured: ")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["simulated"] is True
    assert {"predicted_s", "measured_s", "error", "bottleneck"} <= set(found["rows"][0])
