"""Single mutations of a good action: real text in, text with one mistake out (None: it cannot be made).

They know Python code and a few conventions of written answers, and no task: whether a mutation does any harm
is for the episode to show.
"""

from __future__ import annotations

from collections.abc import Mapping

from mappa_env.benchmarking.coach.mutation import Kind, Mutate, Mutation
from mappa_env.benchmarking.coach.mutations_answer import ANSWERS
from mappa_env.benchmarking.coach.mutations_code import CODE

__all__ = ["MUTATIONS", "Kind", "Mutate", "Mutation"]

MUTATIONS: Mapping[str, Mutation] = {**CODE, **ANSWERS}
