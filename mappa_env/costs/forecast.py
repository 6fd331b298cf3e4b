"""What a run's verdicts will cost, before it: no network, no key. Prompts are real, tokens are estimated.

A scripted team plays a few episodes and the coach's own prompts are written about them. Characters per token,
the length of an answer and thoughts are assumptions, and said to be.
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
from mappa_env.coach.llm.criteria import CoachSpec, read_spec
from mappa_env.coach.llm.fences import nonce
from mappa_env.coach.llm.models import Model, catalogue, model
from mappa_env.coach.llm.prompt import Prompts
from mappa_env.coach.llm.settings import Settings, settings
from mappa_env.coach.llm.wire import Usage
from mappa_env.costs.run_plan import RunPlan
from mappa_env.episode import Episode
from mappa_env.errors import CardError, OptionError
from mappa_env.partners import Partners
from mappa_env.types import Evidence

QUOTE, SUMMARY = 100, 200
"""Characters of a quote and of a summary, assumed."""
THOUGHTS = {"low": 500, "medium": 2000, "high": 8000}
"""Tokens of thoughts by level: a guess. Providers publish none."""
LEAST_CACHED = 1024
"""Tokens: shorter common beginnings are not cached (Gemini's implicit cache)."""
SOON_DAYS = 90


@dataclass(frozen=True, slots=True)
class Case:
    """One of low, typical, high. ``cached`` is part of ``prompt``; ``output`` has the thoughts in it.
    ``dollars`` and ``hours`` None: not known."""

    calls: int
    prompt: int
    cached: int
    output: int
    dollars: float | None
    hours: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """``hours``: at least so many, by the rate limits alone. ``notes``: assumptions and warnings."""

    coach: str
    env_id: str
    episodes: int
    cases: dict[str, Case]
    actions: tuple[int, float, int]
    """Per episode: fewest seen, mean, most that the team's turns allow."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Characters of one prompt, of its beginning that another of the sample shares, and of the answer."""

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
    """What judging ``plan`` with ``coach`` takes. Raises OptionError for a coach that asks no model."""
    if samples < 1 or chars_per_token <= 0 or (thoughts is not None and thoughts < 0):
        raise OptionError(
            f"samples={samples!r} must be at least 1, chars_per_token={chars_per_token!r} above 0 and "
            f"thoughts={thoughts!r} not negative."
        )
    name, chosen, asked = _coach(coach)
    counts, sampled = _play(plan, card, chosen, samples)
    if thoughts is None:
        thoughts = asked.thinking_budget or THOUGHTS.get(asked.thinking_level or "", 0)
    most = sum(agent.max_turns for agent in card.team)

    def case(actions: float, prompt: float, shared: float, output: float) -> Case:
        calls = round(actions * plan.episodes) * chosen.samples
        cached = shared / chars_per_token if shared / chars_per_token >= LEAST_CACHED else 0.0
        usage = Usage(round(calls * prompt / chars_per_token), round(calls * cached), round(calls * output))
        dollars = asked.price.of(usage) if asked.price else None
        hours = _hours(asked, calls, usage.prompt + usage.output)
        return Case(calls, usage.prompt, usage.cached, usage.output, dollars, hours)

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
        f"{len(counts)} scripted episodes were played; prompts as they would be sent, at {chars_per_token:g} "
        "characters per token. Real teams write more or less.",
        f"An answer is taken to be {answer:.0f} tokens, and {thoughts} of thoughts (typical); high: "
        f"max_output_tokens={cut}, every turn of the team used, the longest prompt seen.",
        "low: no thoughts, and the common beginning of prompts comes from the provider's cache.",
        "Retries, and answers asked for a second time, are not counted. Nor is the schema, which some "
        "providers bill.",
        *(
            ["Tracing back a failure that its trail does not explain is one call more, and not counted."]
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
    if kind not in ("gemini", "openai") or not rest:
        raise OptionError(
            f"coach={name!r} asks no model, so it costs nothing; name one: --coach gemini:gemini-3.8-flash."
        )
    chosen = settings(name, options)
    asked = model(
        rest.partition("@")[0], price=chosen.price, limits=chosen.limits, thinking=chosen.thinking,
        temperature=chosen.temperature,
    )  # fmt: skip
    return name, chosen, asked


def _play(plan: RunPlan, card: Card, chosen: Settings, samples: int) -> tuple[list[int], list[_Asked]]:
    """Actions per episode, and what would be asked about them: an expert and a faulty team in turn."""
    if card.coach is None:
        raise OptionError(f"the card {card.id} has no coach.yaml, which says what to ask a model.")
    spec = read_spec(card.coach, tuple(sorted({agent.role for agent in card.team})))
    try:
        template = (card.coach.parent / spec.template).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CardError(f"{card.coach}: template {spec.template!r} cannot be read: {error}") from None
    prompts = Prompts(card, spec, template, corrections=chosen.corrections)
    style = plan.options.get("prompts", "full")
    teams = [Partners(card, kind, seat=None, prompts=style) for kind in ("expert", "faulty")]
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
                found.append((evidence.agent.role, text, len(_answer(spec, evidence, chosen))))
    finally:
        episode.close()
    return counts, [_Asked(len(text), _shared(found, i), answer) for i, (_, text, answer) in enumerate(found)]


def _shared(found: list[tuple[str, str, int]], index: int) -> int:
    role, text, _ = found[index]
    others = (other for i, (its, other, _) in enumerate(found) if i != index and its == role)
    return max((len(os.path.commonprefix([text, other])) for other in others), default=0)  # noqa: RUF071


def _answer(spec: CoachSpec, evidence: Evidence, chosen: Settings) -> str:
    """An answer of ordinary length."""
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


def _warnings(name: str, asked: Model, chosen: Settings, typical: Case, today: date) -> list[str]:
    known = catalogue()["models"].get(asked.name, {})
    found = []
    if asked.thinking_level is not None:
        found.append(
            f"Thoughts at level {asked.thinking_level!r} are a guess: measure some, then --thoughts N."
        )
    if asked.price is None:
        found.append(
            f"No price is known for {asked.name}: give price={{'input': ..., 'output': ...}} in dollars per "
            "million tokens."
        )
    elif chosen.price is None:
        until = known.get("price", {}).get("until")
        found.append(
            f"Prices are those of {catalogue()['dated']}" + (f", announced until {until}." if until else ".")
        )
    if typical.hours is None:
        found.append(f"No rate limits are known for {asked.name}: the time is not bounded by any.")
    elif chosen.limits is None and known.get("limits", {}).get("guess"):
        found.append("The rate limits are a cautious guess; your account's are shown by the provider.")
    if asked.retires is not None and (asked.retires - today).days <= SOON_DAYS:
        when = "retired on" if asked.retires <= today else "retires on"
        found.append(
            f"WARNING: {asked.name} {when} {asked.retires}: the name may then answer as another model."
        )
    if chosen.budget is not None and typical.dollars is not None and typical.dollars > chosen.budget:
        found.append(
            f"WARNING: budget={chosen.budget:g} ends the run early: {name} typically costs "
            f"${typical.dollars:.2f} here."
        )
    return found
