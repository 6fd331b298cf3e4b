"""Which settings of an evaluation change its results, and which only how it is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.coach.llm.address import split_address

PRACTICAL = frozenset(
    {
        "budget",
        "ledger",
        "price",
        "limits",
        "concurrency",
        "version",  # what answered before is compared with what answers now
        "deadline_s",
        "timeout_s",
        "wait_for_server",
        "base_s",
        "cap_s",
        "breaker_failures",
        "breaker_pause_s",
        "key_variable",
        "cache",
    }
)
"""Options of a model, or of a coach, that change no answer."""


def compared(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of ``settings`` in which two launches of one evaluation must agree."""
    found = dict(settings)
    if isinstance(models := found.get("models"), Mapping):
        found["models"] = {agent: _answering(spec) for agent, spec in models.items()}
    if isinstance(options := found.get("options"), Mapping) and "coach" in options:
        found["options"] = {**options, "coach": _answering(options["coach"])}
    return found


def _answering(spec: Any) -> Any:
    """A specification without its address and its practical options."""
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping):
        return spec
    kept = {key: value for key, value in spec.items() if key not in PRACTICAL}
    kind, _, rest = str(kept.get("name", "")).partition(":")
    if kind == "openai":
        kept["name"] = f"{kind}:{split_address(rest)[0]}"
    return kept
