"""The faults of an environment: each replaces one action, of known agent and turn, of an expert episode."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mappa_env.benchmarking.coach.mutations import Kind, Mutation
from mappa_env.benchmarking.coach.mutations_answer import ANSWERS
from mappa_env.benchmarking.coach.mutations_code import CODE
from mappa_env.cards import Card
from mappa_env.errors import OptionError
from mappa_env.scripted import load_script, make_team
from mappa_env.types import ActionRecord, Task

Source = Literal["script", "mutation"]

SCRIPTED: dict[str, Kind] = {
    "forgets_x_test": "file",
    "forgets_model": "file",
    "prints_saved_without_saving": "file",
    "wrong_file_name": "file",
    "pickles_y_train": "file",
    "wrong_rows": "file",
    "row_subset": "file",
    "duplicate_ids": "file",
    "wrong_header": "file",
    "wrong_id_column": "file",
    "crash": "code",
    "wrong_column": "code",
    "wrong_input": "code",
    "no_print": "code",
    "no_fence": "code",
    "leaks_target": "value",
    "leaves_nan": "value",
    "strings_left": "value",
    "constant_model": "value",
    "few_rows": "value",
    "nan_predictions": "value",
    "constant_submission": "value",
    "wrong_formula": "value",
    "wrong_operator": "value",
    "wrong_digit": "value",
    "miscopied_result": "text",
    "no_box": "text",
    "miscopied": "text",
    "boxes_problem_number": "text",
}
"""Name of a scripted fault -> the kind of mistake."""

MUTATIONS: Mapping[str, Mutation] = {**CODE, **ANSWERS}


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong action: ``text`` replaces the expert's action of ``agent`` in turn ``own`` of its script."""

    agent: str
    own: int
    name: str
    kind: Kind
    source: Source
    text: str

    @property
    def key(self) -> str:
        """Identifies the fault within its task."""
        return f"{self.agent}:{self.own}:{self.source}:{self.name}"


def faults(card: Card, task: Task, seed: int, good: Sequence[ActionRecord]) -> list[Fault]:
    """Every fault that applies to ``good``, the expert's episode; equal texts count once."""
    found: dict[tuple[str, int, str], Fault] = {}
    for fault in (*_scripted(card, task, seed, good), *_mutated(seed, good)):
        found.setdefault((fault.agent, fault.own, fault.text), fault)
    return list(found.values())


def need_script(card: Card) -> str:
    """The name of the card's script. Raises OptionError if it has none, or a team that is no chain."""
    if card.scripted is None:
        raise OptionError(
            f"the benchmark needs a scripted team, and the card {card.id} has none: set scripted: in its "
            "card.yaml."
        )
    if not card.order.is_chain:
        raise OptionError(
            f"the benchmark repeats single turns of teams whose agents act once each; the card {card.id} has "
            "an order of its own. Use 'mappa-env why' on recorded episodes instead."
        )
    return card.scripted


def _scripted(card: Card, task: Task, seed: int, good: Sequence[ActionRecord]) -> Iterator[Fault]:
    """The scripts' faults. A script may change several actions of an agent; the first one is the fault."""
    name = need_script(card)
    for role, names in load_script(name)[0].faults.items():
        for fault in names:
            agent = f"{role}_0"
            team = make_team(name, "single", agent=agent, fault=fault)
            team.reset(task, seed)
            for action in good:
                text = team.act(agent, action.turn, good[: action.step]) if action.agent == agent else None
                if text is not None and text != action.action:
                    yield Fault(agent, action.turn, fault, SCRIPTED[fault], "script", text)
                    break


def _mutated(seed: int, good: Sequence[ActionRecord]) -> Iterator[Fault]:
    for action in good:
        for name, (kind, mutate) in MUTATIONS.items():
            rng = np.random.default_rng([seed, action.step, zlib.crc32(name.encode())])
            text = mutate(action.action, rng)
            if text is not None and text != action.action:
                yield Fault(action.agent, action.turn, name, kind, "mutation", text)
