"""Where the policies of a run learn."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mappa_rl.config.base import Section


class Placement(Section):
    """Where the policies of a run learn (docs/training.md). It never changes who plays what."""

    crews: Literal["together", "apart"] | dict[str, Annotated[int, Field(ge=0)]] = "together"
    """Crews of ``run.processes`` processes, which learn at the same time. ``together``: one trains all
    policies; ``apart``: one for every trained policy; or policy -> number of its crew. Crew 0, with the
    process that plays the episodes, trains the policies that are not named."""
