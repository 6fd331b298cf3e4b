"""What the demonstrated team does wrong, by role and topic."""

from __future__ import annotations

from collections.abc import Iterable

from mappa_env.scripted import load_script
from mappa_rl.evaluation.summary import Fault


def demonstrated_faults(script: str, topics: Iterable[str]) -> list[Fault]:
    """What the card's faulty scripted team does wrong on ``topics``: first its habits, then its slips."""
    _, plan = load_script(script)
    shown = set(topics)
    habits = [
        Fault(topic=topic, role=role, fault=fault, probability=probability)
        for (topic, role), (fault, probability) in plan.usual.items()
        if topic in shown
    ]
    slips = [Fault(topic="*", role=r, fault="any", probability=p) for r, p in plan.rates.items()]
    return habits + slips
