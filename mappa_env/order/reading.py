"""Reads the ``order`` of a card."""

from __future__ import annotations

from typing import Any, get_args

from mappa_env.errors import CardError, nearest
from mappa_env.order.conditions import Agree, Condition, Says, Status, said, word
from mappa_env.order.order import Order
from mappa_env.order.steps import Act, Choose, Parallel, Repeat, Step, When, counts
from mappa_env.types import RunStatus, Team

KINDS = {
    "parallel": {"parallel"},
    "repeat": {"repeat", "times", "until"},
    "if": {"if", "then", "else"},
    "choose": {"choose", "among", "times"},
}
"""What names a step -> its keys."""
LONGEST = 1000
"""The most actions of an episode: a typing error in ``times`` should not cost a day."""
DEEPEST = 20
"""Steps in steps, at most."""


def read_order(rows: Any, team: Team, where: object) -> Order:
    """The order in ``rows``, the value of a card's ``order``; empty: every agent once. ``where`` is the file.

    Raises CardError.
    """
    if rows is None:
        return Order.chain(team)
    order = Order(team, _Reader(team, where).steps(rows, "order"))
    if not order.fewest_segments:
        raise CardError(
            f"{where}: order can end before anybody acts: add a step in which somebody always does."
        )
    left_out = [name for name in team.names if name not in counts(order.steps)]
    if left_out:
        raise CardError(
            f"{where}: order never lets {left_out[0]} act: add it to a step, or remove it from the team."
        )
    if order.most_actions > LONGEST:
        raise CardError(
            f"{where}: order allows {order.most_actions:,} actions per episode, the limit is {LONGEST:,}: "
            "lower a times."
        )
    return order


class _Reader:
    """Reads steps; ``at`` says where in the card something is wrong."""

    def __init__(self, team: Team, where: object) -> None:
        self._team, self._where = team, where

    def steps(self, rows: Any, at: str) -> tuple[Step, ...]:
        """At least one step."""
        if not isinstance(rows, list) or not rows:
            raise self._error(f"{at} must be a list of steps, found {rows!r:.200}.")
        if at.count("[") > DEEPEST:
            raise self._error(f"order has more than {DEEPEST} steps in steps: use fewer.")
        return tuple(self._step(row, f"{at}[{i}]") for i, row in enumerate(rows))

    def _step(self, row: Any, at: str) -> Step:
        if isinstance(row, str):
            return Act(self._agent(row, at))
        kind = next((kind for kind in KINDS if isinstance(row, dict) and kind in row), None)
        if kind is None:
            raise self._error(f"{at} must be an agent or a mapping with one of {list(KINDS)}, found {row!r}.")
        self._keys(row, KINDS[kind], at)
        match kind:
            case "parallel":
                agents = self._agents(row["parallel"], f"{at}.parallel", least=2)
                for name in agents:
                    if "python" in self._team[name].tools:
                        raise self._error(
                            f"{at}.parallel names {name}, which has Python: the others would see its files. "
                            "Let it act in a step of its own."
                        )
                return Parallel(agents)
            case "repeat":
                until = row.get("until")
                return Repeat(
                    self.steps(row["repeat"], f"{at}.repeat"),
                    self._times(row, at),
                    None if until is None else self._condition(until, f"{at}.until"),
                )
            case "if":
                return When(
                    self._condition(row["if"], f"{at}.if"),
                    self.steps(row.get("then"), f"{at}.then"),
                    self.steps(row["else"], f"{at}.else") if "else" in row else (),
                )
            case _:
                manager = self._agent(row["choose"], f"{at}.choose")
                among = self._agents(row.get("among"), f"{at}.among", least=1)
                if manager in among:
                    raise self._error(f"{at}.among names {manager}, which chooses: leave it out.")
                return Choose(manager, among, self._times(row, at))

    def _condition(self, row: Any, at: str) -> Condition:
        if isinstance(row, dict) and "agree" in row:
            self._keys(row, {"agree"}, at)
            return Agree(self._agents(row["agree"], f"{at}.agree", least=2))
        if not isinstance(row, dict) or not {"says", "status"} & set(row):
            raise self._error(
                f"{at} must be {{agent: ..., says: 'key: value'}}, {{agent: ..., status: ok}} or "
                f"{{agree: [...]}}, found {row!r}."
            )
        agent = self._agent(row.get("agent"), f"{at}.agent")
        if "status" in row:
            self._keys(row, {"agent", "status"}, at)
            known = get_args(RunStatus)
            if row["status"] not in known:
                raise self._error(
                    f"{at}.status={row['status']!r} must be one of {', '.join(known)}."
                    + nearest(str(row["status"]), known)
                )
            if "python" not in self._team[agent].tools:
                raise self._error(f"{at} looks at the code of {agent}, which does not have Python.")
            return Status(agent, row["status"])
        self._keys(row, {"agent", "says"}, at)
        key, colon, value = str(row["says"]).partition(":")
        key, value = key.strip(), value.strip()
        written = said(f"{key}:{value}", key)  # as an agent writes it
        if not colon or len(value.split()) != 1 or not written or written != word(value):
            raise self._error(
                f"{at}.says={row['says']!r} must be one word of letters, a colon and one word, like "
                "'decision: accept'."
            )
        return Says(agent, key, value)

    def _agent(self, name: Any, at: str) -> str:
        names = self._team.names
        if name not in names:
            raise self._error(
                f"{at} names {name!r}, which is not in the team {list(names)}." + nearest(str(name), names)
            )
        return str(name)

    def _agents(self, rows: Any, at: str, least: int) -> tuple[str, ...]:
        if not isinstance(rows, list) or len(rows) < least or len(set(map(str, rows))) < len(rows):
            raise self._error(f"{at} must list {least} or more different agents, found {rows!r}.")
        return tuple(self._agent(row, at) for row in rows)

    def _times(self, row: dict[str, Any], at: str) -> int:
        times = row.get("times")
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise self._error(f"{at}.times must be an integer >= 1, found {times!r}.")
        return times

    def _keys(self, row: dict[Any, Any], known: set[str], at: str) -> None:
        for key in row:
            if key not in known:
                raise self._error(f"{at} has the unknown key {key!r}." + nearest(str(key), sorted(known)))

    def _error(self, text: str) -> CardError:
        return CardError(f"{self._where}: {text}")
