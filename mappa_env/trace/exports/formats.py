"""The formats by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mappa_env.trace.exports import atif, inspect_log, otel
from mappa_env.trace.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Format:
    """``write`` writes episodes and the version of mappa to a path; returns the number of episodes.

    ``dropped`` says what the format leaves out.
    """

    write: Callable[[Path, Iterable[Recorded], str], int]
    output: str
    """What it writes."""
    dropped: tuple[str, ...]


FORMATS: Mapping[str, Format] = {
    "atif": Format(atif.write, "a folder with one JSON file per episode", atif.DROPPED),
    "inspect": Format(inspect_log.write, "one .eval file", inspect_log.DROPPED),
    "otel": Format(otel.write, "a file of OTLP/JSON lines", otel.DROPPED),
}
