"""What ``mappa-rl status`` says of the processes on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from mappa_rl.cluster import roll
from mappa_rl.config import load_config
from mappa_rl.training.room import record

PLACE = {"actor": "a", "node": "0123456789", "address": "10.0.0.7", "pid": 12}


@pytest.mark.parametrize(
    ("name", "where", "doing"),
    [
        ("leader", {}, "plays the episodes, trains solver_0"),
        (
            "crew-1-0",
            {"rank": "0", "at work on": "step of coder_0"},
            "trains coder_0, rank 0, at work on step of coder_0",
        ),
        ("environments-3", {"environments": 9, "in the sandbox": 2}, "9 environments, 2 in the sandbox"),
    ],
)
def test_who_does_what(name: str, where: dict[str, Any], doing: str) -> None:
    said = record(load_config("demo", ["cluster=ray", "placement.crews=apart"]))
    found = roll._present(name, PLACE | where, roll._of(name, said["roles"]), "")
    assert found == roll.Present(name, "10.0.0.7", "01234567", "12", doing)


def test_what_an_actor_without_a_place_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "free", lambda: "2 CPU")
    said = record(load_config("demo", ["cluster=ray", "cluster.env_cpus=8"]))
    found = roll._present("environments-0", None, "", roll._of("environments-0", said["wants"]))
    assert found.doing == "waits for 8 CPU (free are 2 CPU), or gives no answer"
