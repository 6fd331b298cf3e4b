"""Probes by name. A probe looks into the files that agents hand on, for the coach."""

from __future__ import annotations

from mappa_env import plugins
from mappa_env.probes.base import Probe, Site

__all__ = ["PROBES", "Probe", "Site", "make_probe"]

PROBES = plugins.Kind(
    name="probe",
    option="probe",
    group="mappa.probes",
    builtin={"tabular": "mappa_env.probes.tabular:TabularProbe"},
    methods={"look": (1, ())},
    advice="Write a class with look(self, site) that returns facts; see docs/cards.md.",
)


def make_probe(name: str) -> Probe:
    """Create a probe from its name; see ``PROBES``. Raises OptionError."""
    probe: Probe = PROBES.make(name)
    return probe
