"""The coach: its options, its files, what the run asks of it, and a call to its server if it is a model."""

from __future__ import annotations

from contextlib import closing

from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.coach.llm.criteria import read_spec
from mappa_env.coach.rubric.coach import RubricCoach
from mappa_env.errors import MappaError
from mappa_env.evaluation.keys import refuse_keys
from mappa_rl.coach.files import asks_a_model
from mappa_rl.config import Config
from mappa_rl.errors import ConfigError
from mappa_rl.training.preflight.environment import evidence_of
from mappa_rl.training.preflight.problem import Problem, problems_of

PROBE_S = 20.0
"""Seconds that the coach's server has to answer the one test call."""
_NOT_PROBED = ("cache", "ledger", "version")
"""Options that would keep the test call's answer, or what it says, for the run."""


def key_problems(config: Config) -> list[Problem]:
    """Options of the coach that look like keys: the run's files would hold them. They are not quoted."""
    coach = config.env.coach
    options = {"name": coach} if isinstance(coach, str) else coach
    return problems_of("coach", lambda: refuse_keys(options, "env.coach"))


def coach_problems(config: Config, card: Card, probe: bool) -> list[Problem]:
    """Malformed coach.yaml or rubric, a coach that cannot do what the run asks; ``probe``: or not answer.

    With a key among its options only that, as other messages may quote them.
    """
    if keys := key_problems(config):
        return keys
    spec, rubric = card.coach, card.rubric
    roles = tuple(sorted({agent.role for agent in card.team}))
    files = problems_of("coach.yaml", lambda: spec is not None and read_spec(spec, roles))
    files += problems_of("rubric", lambda: rubric is not None and RubricCoach(card))
    messages = {problem.message for problem in files}
    made = [p for p in problems_of("coach", lambda: _check(config, card)) if p.message not in messages]
    if files or made or not (probe and asks_a_model(config)):
        return files + made
    return _probe(config, card)


def _check(config: Config, card: Card) -> None:
    with closing(make_coach(config.env.coach, card)) as coach:
        if config.sft.corrections_coef and not coach.corrects:
            raise ConfigError(
                f"sft.corrections_coef={config.sft.corrections_coef} needs a coach that corrects; "
                f"env.coach={config.env.coach!r} does not. Give a language model corrections: true, or use 0."
            )


def _probe(config: Config, card: Card) -> list[Problem]:
    """Ask the server once, about the first action of a test episode."""
    given = config.env.coach
    options = {"name": given} if isinstance(given, str) else dict(given)
    options = {key: value for key, value in options.items() if key not in _NOT_PROBED}
    options |= {"samples": 1, "corrections": False, "wait_for_server": False}
    options |= {"deadline_s": PROBE_S, "timeout_s": PROBE_S}
    try:
        evidence = evidence_of(config, config.env.prompts)[0]
        with closing(make_coach(options, card)) as coach:
            verdict = coach.judge(evidence)
    except MappaError as error:
        return [Problem("coach", str(error))]
    if verdict.status != "error":
        return []
    remedy = "start the coach's server, or choose another env.coach"
    return [Problem("coach", f"the test call failed: {verdict.reasoning}; {remedy}.")]
