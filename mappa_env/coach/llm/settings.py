"""Every option of a language-model coach: ``coach={"name": "gemini:...", <options>}``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mappa_env.errors import OptionError, nearest

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """A field's docstring is its documentation; docs/coach.md shows them as a table."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    labels: bool = True
    """Show the task's hidden truth where the card allows it; False: a run must not learn from labels."""
    samples: Count = 1
    """Independent answers per verdict; their mean is the score."""
    spread: Positive = 3.0
    """With several samples: abstain when their scores differ by more points than this."""
    corrections: bool = False
    """Ask for a better action too; it is tried in a copy of the workspace."""
    max_output_tokens: Annotated[int, Field(ge=64)] = 4096
    """Tokens of an answer, thoughts included."""

    price: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Dollars per million tokens: input, output and, if it differs, cached. Default: models.yaml."""
    limits: dict[str, Positive] | None = None
    """What the server takes per minute: requests, tokens. Default: models.yaml."""
    thinking: str | int | None = None
    """A level, or a number of tokens, as the model takes it. Default: models.yaml."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Refused for models that take none. Default 0."""

    budget: Annotated[float, Field(ge=0)] | None = None
    """Dollars that the run may spend; None: no limit."""
    ledger: Path | None = None
    """File with a line per call and what it cost; a resumed run goes on with its sum."""
    cache: Path | None = None
    """File with every answer: asked once, and what ``replay:<path>`` plays."""
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 64
    """Calls in flight at once, over all environments of the process."""
    version: str | None = None
    """The one model version that may answer. Default: the first that answers."""

    deadline_s: Positive = 600.0
    """Seconds for a verdict as a whole, with all retries."""
    timeout_s: Positive = 120.0
    """Seconds for one call."""
    base_s: Positive = 1.0
    """The wait before try n is drawn from 0 to base_s * 2**n seconds ..."""
    cap_s: Positive = 60.0
    """... and at most this; longer only where the server asks for it."""
    breaker_failures: Count = 8
    """After so many failures in a row nobody asks ..."""
    breaker_pause_s: Positive = 10.0
    """... for so many seconds; rollouts wait meanwhile."""

    api: Literal["developer", "vertex", "express"] = "developer"
    """Gemini only: which of Google's services."""
    project: str | None = None
    """Gemini on Vertex AI only."""
    location: str | None = None
    """Gemini on Vertex AI only."""
    api_version: str | None = None
    """Gemini only: v1beta on the Developer API, v1beta1 on Vertex AI, where nothing else is said."""
    base_url: str | None = None
    """Gemini only: another address of the service. OpenAI-compatible servers have theirs in the name."""
    key_variable: str = "OPENAI_API_KEY"
    """OpenAI-compatible only: the environment variable that holds the key."""
    extra: dict[str, Any] = {}
    """OpenAI-compatible only: further fields of the request."""


_ONLY = {
    "gemini": ("api", "project", "location", "api_version", "base_url"),
    "openai": ("key_variable", "extra"),
}


def settings(name: str, options: Mapping[str, Any]) -> Settings:
    """``options`` of the coach ``name``, checked. Raises OptionError that names the option."""
    kind = name.partition(":")[0]
    for other, fields in _ONLY.items():
        for field in fields:
            if other != kind and field in options:
                raise OptionError(f"coach={name!r} takes no {field!r}: it is an option of {other!r} coaches.")
    try:
        return Settings.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = nearest(place, Settings.model_fields) if first["type"] == "extra_forbidden" else ""
        raise OptionError(
            f"coach={name!r}: {place}: {first['msg']} (found {first['input']!r}).{hint}"
        ) from None
