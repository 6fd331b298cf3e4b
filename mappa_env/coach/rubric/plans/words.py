"""Words of plans that compute: beginnings of words, as alternatives of a regular expression.

Each reader of plans takes the kinds that matter to it, so that a word is added in one place.
"""

from __future__ import annotations

import re

OPERATIONS = "plus|minus|times|divi[ds]|multip|mod|add|subtract|round|(?:in|de)creas|remov|take"
"""They ask for another number."""
LONE_OPERATIONS = "doubl|tripl|twice|halv|squar|cube|negat|revers"
"""They compute without one."""
QUANTITIES = "dozen|hundred|thousand|million|half|quarter|third|root"
"""They change a number beside them."""
RESULTS = "sum|product|power|percent|more|less"
"""They name what is computed, or ask for it."""
CHECKS = "check|verif|test"
"""They tell that a step is a check."""


def any_of(*kinds: str) -> re.Pattern[str]:
    """A pattern that finds the beginning of a word of one of ``kinds``, in any case."""
    return re.compile(rf"\b(?:{'|'.join(kinds)})", re.IGNORECASE)
