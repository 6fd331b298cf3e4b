"""What a resumed run may change exists, is documented, and nothing else passes."""

from __future__ import annotations

import re

import pytest

from mappa_rl.config import Config
from mappa_rl.config.overrides import keys
from mappa_rl.config.resumable import RESUMABLE, check_resumable
from mappa_rl.errors import ConfigError
from paths import ROOT


def test_every_resumable_key_exists_and_is_documented() -> None:
    assert set(RESUMABLE) <= {key for key, _, _ in keys(Config)}
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    documented = set(
        re.findall(r"`([\w.]+)`", page.split("### What a resumed run may change")[1].split("##")[0])
    )
    assert documented == set(RESUMABLE)


def test_the_rest_is_refused_by_name() -> None:
    check_resumable([f"{key}=1" for key in RESUMABLE])
    check_resumable(["policies.lr.solver_0=1e-5"])
    for key in ("algo.name=grpo", "run.seed=1", "run.steps2=3", "model.kind=x", "env.coach=y", "--seeds"):
        with pytest.raises(ConfigError, match=f"cannot change {re.escape(key)}"):
            check_resumable(["run.steps=5", key])
