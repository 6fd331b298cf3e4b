"""What is known of a model: price, rate limits, thinking. From ``models.yaml``, overridden by options."""

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
    """Dollars per million tokens; ``output`` is also the price of thoughts."""

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
        """Dollars that a call with so many tokens at most may cost."""
        return (prompt * self.input + output * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class Rates:
    """What the server takes per minute; None: unlimited."""

    requests: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """``sampling``: whether temperature and seed may be sent. At most one of the two ways to say how long to
    think is set. ``retires``: the day from which the name may answer as another model."""

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
        """Whatever changes what the model says, for the key of a verdict."""
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
    """The model ``name`` as ``models.yaml`` knows it, with the user's own values over that.

    Raises OptionError for a value that the model does not take.
    """
    known = catalogue()["models"].get(name, {})
    sampling = known.get("sampling", True)
    if temperature is not None and not sampling:
        raise OptionError(f"temperature={temperature!r}: {name} takes no sampling parameters.")
    if temperature is not None and not 0 <= temperature <= 2:
        raise OptionError(f"temperature={temperature!r} must be within 0-2.")
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
    """``models.yaml`` as it is."""
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
            f"thinking={asked!r}: how {found.name} thinks is not known here; a server's own fields can be "
            "given as extra={...}."
        )
    value = known["default"] if asked is None else asked
    if "levels" in known:
        if value not in known["levels"]:
            raise OptionError(f"thinking={value!r}: {found.name} takes {known['levels']}.")
        return dataclasses.replace(found, thinking_level=str(value))
    least, most = known["budget"]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"thinking={value!r}: {found.name} takes a number of tokens in {least}-{most}.")
    return dataclasses.replace(found, thinking_budget=value)


def _known(what: str, given: Mapping[str, Any], known: set[str]) -> None:
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{what} has no {key!r}; it has {sorted(known)}." + nearest(key, known))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise OptionError(f"{what}[{key!r}] must be a number >= 0, found {value!r}.")
