"""Prices, rate limits and thinking options of models: from ``models.yaml``, overridden by options."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Any

import yaml

from mappa_env.coach.llm.wire import Usage
from mappa_env.errors import OptionError, nearest

_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. Thoughts cost as much as ``output``."""

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """Dollars."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(usage.prompt - usage.cached, 0)
        return (
            fresh * self.input + usage.cached * cached + (usage.output + usage.thoughts) * self.output
        ) / _MILLION

    def most(self, prompt: int, output: int) -> float:
        """The maximum cost, in dollars, of a call with these numbers of tokens."""
        return (prompt * self.input + output * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class Rates:
    """The server's limits per minute; None: unlimited."""

    requests: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model and how to call it. ``sampling``: whether it accepts temperature and seed.

    At most one of ``thinking_level`` and ``thinking_budget`` (tokens) is set. ``retires``: the day from which
    another model may answer under this name.
    """

    name: str
    price: Price | None = None
    rates: Rates = Rates()
    sampling: bool = True
    temperature: float = 0.0
    thinking_level: str | None = None
    thinking_budget: int | None = None
    retires: date | None = None

    @property
    def decoding(self) -> dict[str, Any]:
        """Everything that changes the model's answers, for the cache key of a verdict."""
        return {
            "temperature": self.temperature if self.sampling else None,
            "thinking": self.thinking_level if self.thinking_level is not None else self.thinking_budget,
        }


def model(
    name: str,
    *,
    price: Mapping[str, float] | None = None,
    limits: Mapping[str, float] | None = None,
    thinking: str | int | None = None,
    temperature: float | None = None,
) -> Model:
    """The model ``name`` from ``models.yaml``, with the user's values on top.

    Raises OptionError for a value that the model does not accept.
    """
    known = catalogue()["models"].get(name, {})
    sampling = known.get("sampling", True)
    if temperature is not None and not sampling:
        raise OptionError(f"temperature={temperature!r}: {name} does not accept sampling parameters.")
    if temperature is not None and not 0 <= temperature <= 2:
        raise OptionError(f"temperature={temperature!r} must be between 0 and 2.")
    chosen = _prices(known.get("price") if price is None else price)
    rates = {k: v for k, v in known.get("limits", {}).items() if k != "guess"} | dict(limits or {})
    _known("limits", rates, {field.name for field in dataclasses.fields(Rates)})
    found = Model(
        name=name,
        price=chosen,
        rates=Rates(**rates),
        sampling=sampling,
        temperature=0.0 if temperature is None else temperature,
        retires=known.get("retires"),
    )
    return _thinking(found, known.get("thinking"), thinking)


@functools.cache
def catalogue() -> dict[str, Any]:
    """The content of ``models.yaml``."""
    text = resources.files(__package__).joinpath("models.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def _prices(given: Mapping[str, Any] | None) -> Price | None:
    if given is None:
        return None
    given = {key: value for key, value in given.items() if key != "until"}
    _known("price", given, {field.name for field in dataclasses.fields(Price)})
    if not {"input", "output"} <= set(given):
        raise OptionError(f"price={dict(given)!r} needs input and output, in dollars per million tokens.")
    return Price(**given)


def _thinking(found: Model, known: Mapping[str, Any] | None, asked: str | int | None) -> Model:
    if known is None:
        if asked is None:
            return found
        raise OptionError(
            f"thinking={asked!r}: models.yaml has no thinking options for {found.name}; set the server's own "
            "fields with extra={...}."
        )
    value = known["default"] if asked is None else asked
    if "levels" in known:
        if value not in known["levels"]:
            raise OptionError(f"thinking={value!r}: {found.name} accepts {known['levels']}.")
        return dataclasses.replace(found, thinking_level=str(value))
    least, most = known["budget"]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"thinking={value!r}: {found.name} accepts {least}-{most} tokens.")
    return dataclasses.replace(found, thinking_budget=value)


def _known(what: str, given: Mapping[str, Any], known: set[str]) -> None:
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{what} has no {key!r}; it has {sorted(known)}." + nearest(key, known))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise OptionError(f"{what}[{key!r}] must be a number >= 0, found {value!r}.")
