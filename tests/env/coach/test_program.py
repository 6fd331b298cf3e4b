"""Which files a program used, by what the sandbox observed, and whether the workspace was full."""

from __future__ import annotations

import dataclasses

import pytest

from mappa_env.coach.program import Program
from mappa_env.types import RunStatus, Space, Use
from rubric_play import ran

NO_SPACE = "OSError: [Errno 28] No space left on device"
QUOTA = Use(2**24, 100)
FULL, ROOMY = Use(2**24, 1), Use(2**20, 1)


@pytest.mark.parametrize(
    "code", ["open('model.pkl')", "if False:\n    open('model.pkl')", "pass", "(" * 5000]
)
@pytest.mark.parametrize("stderr", ["", "FileNotFoundError: 'model.pkl'"])
def test_only_what_was_opened_counts(code: str, stderr: str) -> None:
    def uses(*opened: str, listed: bool = False) -> bool:
        return Program(code, ran("", "error", stderr, opened=opened)).uses("model.pkl", listed=listed)

    assert uses("X_test.pkl", "model.pkl")
    assert uses("./", listed=True)
    assert not uses()
    assert not uses("X_test.pkl", "sub/model.pkl", "model.pkl.bak")
    assert not uses("./")
    assert not uses("sub/", listed=True)
    assert Program(code, ran(opened=("sub/",))).uses("sub/model.pkl", listed=True)


def test_what_nobody_observed_may_be_a_use() -> None:
    assert Program("polars.read_parquet('X.parquet')", ran()).uses("model.pkl")
    assert not Program("import polars\nprint('model.pkl')", ran()).uses("model.pkl")


@pytest.mark.parametrize(
    ("status", "stderr", "before", "after", "expected"),
    [
        ("error", NO_SPACE, ROOMY, ROOMY, False),
        ("disk_limit", NO_SPACE, ROOMY, ROOMY, False),
        ("error", "", FULL, ROOMY, True),
        ("error", "", ROOMY, FULL, True),
        ("disk_limit", "", ROOMY, FULL, True),
        ("error", "NameError: x", ROOMY, FULL, False),
        ("ok", NO_SPACE, FULL, FULL, False),
    ],
)
def test_that_the_workspace_was_full_is_the_hosts_own_finding(
    status: RunStatus, stderr: str, before: Use, after: Use, expected: bool
) -> None:
    space = Space(QUOTA, {"engineer_0": before}, {"engineer_0": after})
    assert Program("", dataclasses.replace(ran("", status, stderr), space=space)).out_of_space == expected
    assert not Program("", ran("", status, stderr)).out_of_space
