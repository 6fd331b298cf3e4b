"""How a model's server is called, and every option of a model as coach: ``{"name": ..., <options>}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from mappa_env.coach.llm.address import problem_of
from mappa_env.errors import OptionError, nearest

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
MOST_TOKENS = 10_000_000
"""No model writes a longer answer."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_UNQUOTED = frozenset({"key_variable", "base_url", "extra"})
"""Options whose values may be secrets that somebody wrote into the wrong place."""

_FIELDS = {
    "model": "the model is named in its specification",
    "messages": "the conversation is the card's",
    "seed": "each request has a seed of its own",
    "temperature": "set the option temperature",
    "max_completion_tokens": "set the option max_output_tokens",
    "max_tokens": "set the option max_output_tokens",
    "n": "each request asks for one answer",
    "stream": "answers are read as a whole",
}
"""Fields of every request, and what sets them."""


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            "must be the name of an environment variable, such as MY_KEY: capitals, digits and "
            "underscores. Put the key itself into that variable"
        )
    return name


def _address(url: str | None) -> str | None:
    if url is not None and (why := problem_of(url)):
        raise ValueError(why)
    return url


Chosen = TypeVar("Chosen", bound="Calls")


class Calls(BaseModel):
    """How a model's server is called."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    max_output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 4096
    """Tokens of an answer, including thoughts."""
    price: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Dollars per million tokens: input, output and, if it differs, cached. Default: models.yaml."""
    limits: dict[str, Positive] | None = None
    """The server's limits per minute: requests, tokens. Default: models.yaml."""
    thinking: str | int | None = None
    """A level or a number of tokens, depending on the model. Default: models.yaml."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; refused for models without sampling parameters. Default: 0 for a coach."""
    budget: Annotated[float, Field(ge=0)] | None = None
    """Dollars that the run may spend; None: no limit."""
    ledger: Path | None = None
    """File with the cost of each call, one per line; a resumed run continues its sum."""
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 64
    """Calls in flight at once, over all environments of the process."""
    version: str | None = None
    """The only model version that may answer. Default: the first that answers."""
    deadline_s: Positive = 600.0
    """Seconds for a whole answer, including retries."""
    timeout_s: Positive = 120.0
    """Seconds for one call."""
    wait_for_server: bool = True
    """Retry also where there is no connection: refused, or the host is unknown or away."""
    base_s: Positive = 1.0
    """The wait before try n is drawn from 0 to base_s * 2**n seconds ..."""
    cap_s: Positive = 60.0
    """... and at most this; longer only where the server asks for it."""
    breaker_failures: Count = 8
    """Consecutive failures that open the circuit breaker."""
    breaker_pause_s: Positive = 10.0
    """Seconds that the breaker stays open; rollouts wait meanwhile."""
    key_variable: Annotated[str, AfterValidator(_variable)] = "OPENAI_API_KEY"
    """OpenAI-compatible only: the environment variable that holds the key."""
    extra: dict[str, Any] = {}
    """OpenAI-compatible only: additional fields of the request, none that it has already."""

    own_fields: ClassVar[Mapping[str, str]] = _FIELDS
    """What ``extra`` must not name, and why."""

    @field_validator("extra")
    @classmethod
    def _additional(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for name in extra:
            if why := cls.own_fields.get(name):
                raise ValueError(f"may only add fields to the request, not replace {name!r}: {why}")
        return extra


class Settings(Calls):
    """The options. The docstrings of the fields form the table in docs/coach.md."""

    max_output_tokens: Annotated[int, Field(ge=64, le=MOST_TOKENS)] = 4096
    """Tokens of an answer, including thoughts."""
    labels: bool = True
    """Show the task's hidden truth if the card allows it; False: judge without labels."""
    samples: Count = 1
    """Independent answers per verdict; the score is their mean."""
    spread: Positive = 3.0
    """With several samples: abstain if their scores differ by more points than this."""
    corrections: bool = False
    """Also ask for a better action, which is run in a copy of the workspace."""
    cache: Path | None = None
    """File with every answer: repeated questions use it, and ``replay:<path>`` reads it."""

    api: Literal["developer", "vertex", "express"] = "developer"
    """Gemini only: the Google service."""
    project: str | None = None
    """Gemini on Vertex AI only."""
    location: str | None = None
    """Gemini on Vertex AI only."""
    api_version: str | None = None
    """Gemini only. Default: v1beta on the Developer API, v1beta1 on Vertex AI."""
    base_url: Annotated[str | None, AfterValidator(_address)] = None
    """Gemini only: another address of the service. OpenAI-compatible coaches have it in their name."""

    own_fields: ClassVar[Mapping[str, str]] = _FIELDS | {"response_format": "the schema of verdicts is fixed"}


_ONLY = {
    "gemini": ("api", "project", "location", "api_version", "base_url"),
    "openai": ("key_variable", "extra"),
}


def settings(name: str, options: Mapping[str, Any]) -> Settings:
    """The validated ``options`` of the coach ``name``. Raises OptionError that names the option."""
    kind = name.partition(":")[0]
    for other, fields in _ONLY.items():
        for field in fields:
            if other != kind and field in options:
                raise OptionError(f"coach={name!r} has no option {field!r}; only {other!r} coaches have it.")
    return validated(Settings, options, f"coach={name!r}")


def validated(kind: type[Chosen], options: Mapping[str, Any], what: str) -> Chosen:
    """``options`` as a ``kind``.

    Raises OptionError that begins with ``what`` and names the option; what may be a key is not quoted.
    """
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = nearest(place, kind.model_fields) if first["type"] == "extra_forbidden" else ""
        unquoted = first["type"] == "extra_forbidden" or place in _UNQUOTED
        said = first["msg"].removeprefix("Value error, ")
        found = "" if unquoted else f" (found {first['input']!r})"
        raise OptionError(f"{what}: {place}: {said}{found}.{hint}") from None
