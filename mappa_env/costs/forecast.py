"""Estimates the cost of a run's verdicts in advance, without network or API key.

A scripted team runs a few episodes, and the coach's real prompts about them are measured. Characters per
token, the length of an answer and its thoughts are assumptions, which the notes list.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from mappa_env.cards import Card
from mappa_env.coach.llm.answer import NOBODY
from mappa_env.coach.llm.criteria import CoachSpec
from mappa_env.coach.llm.fences import nonce
from mappa_env.coach.llm.make import FORMS
from mappa_env.coach.llm.models import Model, catalogue, model
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.coach.llm.settings import Settings, settings
from mappa_env.coach.llm.wire import Usage
from mappa_env.costs.run_plan import RunPlan
from mappa_env.envs.partners import Partners
from mappa_env.episode.episode import Episode
from mappa_env.errors import OptionError, nearest
from mappa_env.types import Evidence

QUOTE, SUMMARY = 100, 200
"""Characters of a quote and of a summary, assumed."""
THOUGHTS = {"low": 500, "medium": 2000, "high": 8000}
"""Tokens of thoughts by level: a guess, because providers publish no figures."""
LEAST_CACHED = 1024
"""Tokens: shorter common prefixes are not cached (Gemini's implicit cache)."""
SOON_DAYS = 90
FREE = ("rubric", "off")
"""Coaches that do not call a model."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario (low, typical or high) for the whole run.

    ``prompt`` includes ``cached``; ``output`` includes thoughts. ``dollars`` or ``hours`` None: unknown.
    """

    calls: int
    prompt: int
    cached: int
    output: int
    dollars: float | None
    hours: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimate. ``hours``: a lower bound from the rate limits; ``notes``: assumptions and warnings."""

    coach: str
    env_id: str
    episodes: int
    cases: dict[str, Scenario]
    actions: tuple[int, float, int]
    """Per episode: the fewest and the mean in the sample, and the most that the team's turns allow."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Characters of one prompt, of the longest prefix shared with another prompt, and of the answer."""

    prompt: int
    shared: int
    answer: int


def forecast(
    plan: RunPlan,
    card: Card,
    coach: str | Mapping[str, Any],
    *,
    samples: int = 8,
    chars_per_token: float = 4.0,
    thoughts: int | None = None,
    today: date | None = None,
) -> Forecast:
    """Estimate the cost of judging ``plan``. Raises OptionError for a coach that does not call a model."""
    if samples < 1 or chars_per_token <= 0 or (thoughts is not None and thoughts < 0):
        raise OptionError(
            f"samples={samples!r} must be at least 1, chars_per_token={chars_per_token!r} above 0 and "
            f"thoughts={thoughts!r} not negative."
        )
    name, chosen, asked = _coach(coach)
    counts, sampled = _play(plan, card, chosen, samples)
    if thoughts is None:
        thoughts = asked.thinking_budget or THOUGHTS.get(asked.thinking_level or "", 0)
    most = card.order.most_actions

    def case(actions: float, prompt: float, shared: float, output: float) -> Scenario:
        calls = round(actions * plan.episodes) * chosen.samples
        cached = shared / chars_per_token if shared / chars_per_token >= LEAST_CACHED else 0.0
        usage = Usage(round(calls * prompt / chars_per_token), round(calls * cached), round(calls * output))
        dollars = asked.price.of(usage) if asked.price else None
        hours = _hours(asked, calls, usage.prompt + usage.output)
        return Scenario(calls, usage.prompt, usage.cached, usage.output, dollars, hours)

    prompt = statistics.fmean(each.prompt for each in sampled)
    shared = statistics.fmean(each.shared for each in sampled)
    answer = statistics.fmean(each.answer for each in sampled) / chars_per_token
    cut = chosen.max_output_tokens
    cases = {
        "low": case(min(counts), prompt, shared, min(answer, cut)),
        "typical": case(statistics.fmean(counts), prompt, 0.0, min(answer + thoughts, cut)),
        "high": case(most, max(each.prompt for each in sampled), 0.0, cut),
    }
    notes = [
        f"The prompts of {len(counts)} scripted episodes were measured, at {chars_per_token:g} "
        "characters per token. Trained teams may write more or less.",
        f"typical: an answer has {answer:.0f} tokens plus {thoughts} of thoughts. high: "
        f"max_output_tokens={cut}, the team uses all its turns, and every prompt is as long as the longest.",
        "low: no thoughts, and the provider caches the common prefix of prompts.",
        "Retries, repeated questions and the schema, which some providers bill, are not included.",
        *(
            ["A failure that backward tracing does not decide takes one more call, which is not included."]
            if plan.traced
            else []
        ),
        *_warnings(name, asked, chosen, cases["typical"], today or date.today()),
    ]
    actions = (min(counts), statistics.fmean(counts), most)
    return Forecast(name, plan.env_id, plan.episodes, cases, actions, tuple(notes))


def _coach(coach: str | Mapping[str, Any]) -> tuple[str, Settings, Model]:
    options = {"name": coach} if isinstance(coach, str) else dict(coach)
    name = str(options.pop("name", ""))
    kind, _, rest = name.partition(":")
    if kind in FORMS and kind != "replay" and not rest:
        known = [f"{kind}:{each}" for each in catalogue()["models"] if each.startswith(kind)]
        raise OptionError(
            f"coach={name!r} does not name a model: write {FORMS[kind]}"
            + (f" ({', '.join(known)})." if known else ".")
        )
    if kind not in FORMS or kind == "replay":
        free = name in FREE or kind == "replay"
        raise OptionError(
            (f"coach={name!r} does not call a model, so it is free." if free else f"unknown coach {name!r}.")
            + nearest(kind, FORMS)
            + " To price a model, name it: --coach gemini:gemini-3.8-flash."
        )
    chosen = settings(name, options)
    asked = model(
        rest.partition("@")[0],
        price=chosen.price,
        limits=chosen.limits,
        thinking=chosen.thinking,
        temperature=chosen.temperature,
    )
    return name, chosen, asked


def _play(plan: RunPlan, card: Card, chosen: Settings, samples: int) -> tuple[list[int], list[_Asked]]:
    """Actions per episode, and the sizes of the calls about them; expert and faulty teams alternate."""
    prompts = Prompts(card, corrections=chosen.corrections)
    style = plan.options.get("prompts", "full")
    teams = [Partners(card, kind, agent=None, prompts=style) for kind in ("expert", "faulty")]
    counts, found = [], list[tuple[str, str, int]]()
    episode = Episode(card, coach="rubric" if card.rubric else "off", **plan.options)
    try:
        for seed in range(samples):
            team = teams[seed % 2]
            episode.reset(seed=seed)
            team.reset(episode)
            while not episode.over:
                episode.act(team.act(episode))
            counts.append(len(episode.actions))
            for evidence in episode.evidence:
                written = prompts.write(evidence, nonce(), labels=chosen.labels)
                text = "\n\n".join((written.system, *written.parts))
                found.append((evidence.agent.role, text, len(_answer(prompts.spec, evidence, chosen))))
    finally:
        episode.close()
    return counts, [_Asked(len(text), _shared(found, i), answer) for i, (_, text, answer) in enumerate(found)]


def _shared(found: list[tuple[str, str, int]], index: int) -> int:
    role, text, _ = found[index]
    others = (other for i, (its, other, _) in enumerate(found) if i != index and its == role)
    return max((len(os.path.commonprefix([text, other])) for other in others), default=0)  # noqa: RUF071


def _answer(spec: CoachSpec, evidence: Evidence, chosen: Settings) -> str:
    """A synthetic answer of typical length."""
    rows = spec.roles[evidence.agent.role].criteria
    found: dict[str, Any] = {
        "criteria": {row.name: {"quote": "x" * QUOTE, "grade": 3} for row in rows},
        "summary": "x" * SUMMARY,
        "blame": NOBODY,
    }
    if chosen.corrections:
        found["corrected_action"] = evidence.action
    return json.dumps(found)


def _hours(asked: Model, calls: int, tokens: int) -> float | None:
    rates = asked.rates
    minutes = [count / limit for count, limit in ((calls, rates.requests), (tokens, rates.tokens)) if limit]
    return max(minutes) / 60 if minutes else None


def _warnings(name: str, asked: Model, chosen: Settings, typical: Scenario, today: date) -> list[str]:
    known = catalogue()["models"].get(asked.name, {})
    found = []
    if asked.thinking_level is not None:
        found.append(
            f"Tokens of thoughts at level {asked.thinking_level!r} are a guess: measure a few verdicts, "
            "then pass --thoughts N."
        )
    if asked.price is None:
        found.append(
            f"The price of {asked.name} is unknown: set price={{'input': ..., 'output': ...}} in dollars "
            "per million tokens."
        )
    elif chosen.price is None:
        until = known.get("price", {}).get("until")
        found.append(
            f"Prices are those of {catalogue()['dated']}" + (f", announced until {until}." if until else ".")
        )
    if typical.hours is None:
        found.append(f"The rate limits of {asked.name} are unknown, so there is no estimate of the time.")
    elif chosen.limits is None and known.get("limits", {}).get("guess"):
        found.append(
            "The rate limits are a conservative guess; your provider shows the limits of your account."
        )
    if asked.retires is not None and (asked.retires - today).days <= SOON_DAYS:
        when = "retired on" if asked.retires <= today else "retires on"
        found.append(
            f"WARNING: {asked.name} {when} {asked.retires}: another model may answer under this name."
        )
    if chosen.budget is not None and typical.dollars is not None and typical.dollars > chosen.budget:
        found.append(
            f"WARNING: budget={chosen.budget:g} ends the run early: {name} typically costs "
            f"${typical.dollars:.2f} here."
        )
    return found
