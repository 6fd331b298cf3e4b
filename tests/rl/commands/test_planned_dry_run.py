"""``--dry-run`` accepts the placement that ``mappa-rl plan`` recommends: on the GPUs that it was planned for,
which torch is told here, and on a machine without any."""

from __future__ import annotations

import json
import re
import shlex
from types import SimpleNamespace

import pytest
import torch

from mappa_rl.cli import main
from mappa_rl.training.preflight import resources

MEMORY = 80 * 10**9
PLACED = ("placement", "memory", "cluster", "processes", "disk")
"""Problems that a placement can have. Others are about what is not here: vLLM, models, data, keys."""


def concerns(shown: str) -> set[str]:
    listed = shown.partition("\nproblems (")[2]
    return set(re.findall(r"^  ([a-z]+)[^:]*: ", listed, re.MULTILINE))


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "free_memory", lambda: 10**13)
    monkeypatch.setattr(resources, "free_disk", lambda _: 10**15)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


SIZES = [
    ("mathchat_lora", 1, 1),
    ("dsbench", 8, 1),
    ("mathchat_lora", 8, 2),
    ("mathchat", 64, 8),
]
MORE = [
    ("demo", 1, 1),
    ("mathchat", 2, 1),
    ("mathchat", 7, 1),
    ("mathchat", 7, 7),
    ("mathchat", 8, 4),
    ("demo", 8, 8),
]


@pytest.mark.slow
@pytest.mark.usefixtures("roomy")
@pytest.mark.parametrize(
    ("recipe", "gpus", "nodes"), [*SIZES, *(pytest.param(*each, marks=pytest.mark.large) for each in MORE)]
)
def test_with_the_gpus_that_it_is_for_and_without_any(
    recipe: str, gpus: int, nodes: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", recipe, "--gpus", str(gpus), "--nodes", str(nodes), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    program, *words = shlex.split(facts["command"])
    assert program == "mappa-rl"

    def dry_run() -> str:
        main([*words, "--dry-run", "--no-rehearsal"])
        shown = capsys.readouterr().out
        assert "\nproblems" in shown
        assert not concerns(shown) & set(PLACED), shown
        return shown

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shown = dry_run()
    assert "for all that is on it" not in shown
    if nodes == 1 and recipe != "demo":
        assert f"needs a machine with at least {facts['placement']['gpus']} GPU" in shown
    if nodes > 1:
        assert "cluster.address=auto" in shown
        assert "the cluster was not asked" in shown

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus // nodes)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (MEMORY - 10**9, MEMORY))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=MEMORY))
    dry_run()
