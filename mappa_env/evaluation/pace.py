"""How long a participant may take: long answers need long calls."""

from __future__ import annotations

from mappa_env.coach.llm.settings import Calls

SLOWEST = 10.0
"""Tokens a second that a call may count on, at least."""
CALLS = 3
"""Calls of full length that fit into the deadline of an answer."""


def paced(chosen: Calls) -> Calls:
    """``chosen`` with times that follow from its tokens, unless they were given.

    A call takes at most ``max_output_tokens / SLOWEST`` seconds and an answer, with its retries, ``CALLS``
    times the time of a call, but neither less than the defaults of ``Calls``.
    """
    given = chosen.model_fields_set
    timeout, deadline = chosen.timeout_s, chosen.deadline_s
    if "timeout_s" not in given:
        timeout = max(timeout, chosen.max_output_tokens / SLOWEST)
    if "deadline_s" not in given:
        deadline = max(deadline, CALLS * timeout)
    return chosen.model_copy(update={"timeout_s": timeout, "deadline_s": deadline})
