"""Where in a stay the work is done: extra turns around it, so that a fault is not always in the same turn.

A script's first turn is its work; whatever follows it reports. Extra turns are invisible to the scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mappa_env.types import Team

EXTRAS = {
    "look": "First I look at what is there.\n\n```python\nimport os\nprint(sorted(os.listdir('.')))\n```",
    "stumble": "First I look at what is there.\n\n```python\nprint(sorted(os.listdir('.')))\n```",
}
"""``stumble`` raises a NameError and does no harm."""
WORK = "work"
"""An extra turn that does the work, rightly."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``agent`` has extra turns ``before`` its work and ``after`` it; everybody else acts as scripted."""

    name: str
    agent: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def slot(self, agent: str, turn: int) -> str | int:
        """What ``agent`` does in ``turn``: an extra, or the turn of its script."""
        if agent != self.agent:
            return turn
        sequence: list[str | int] = [*self.before, 0, *self.after]
        return sequence[turn] if turn < len(sequence) else turn - len(sequence) + 1

    def turn(self, agent: str, own: int) -> int:
        """The turn in which ``agent`` comes to turn ``own`` of its script."""
        if agent != self.agent:
            return own
        return own + len(self.before) + (len(self.after) if own else 0)


PLAIN = Layout("plain")


def layouts(team: Team, agent: str, own: int) -> Iterator[Layout]:
    """Every layout in which ``agent`` can still come to turn ``own`` of its script.

    Only who hands on files looks afterwards: what others hand on is their last output.
    """
    yield PLAIN
    found = [
        Layout(f"{agent} looks first", agent, before=("look",)),
        Layout(f"{agent} stumbles first", agent, before=("stumble",)),
        Layout(f"{agent} works twice", agent, before=(WORK,)),
    ]
    if team[agent].requires:
        found.append(Layout(f"{agent} looks afterwards", agent, after=("look",)))
    if "python" in team[agent].tools:
        yield from (layout for layout in found if layout.turn(agent, own) < _room(team, layout))
    for other in team:
        if other.name != agent and "python" in other.tools and other.max_turns > 1:
            yield Layout(f"{other.name} stumbles first", other.name, before=("stumble",))


def _room(team: Team, layout: Layout) -> int:
    """Turns of the agent; its extra turns must fit too."""
    turns = team[layout.agent].max_turns
    return turns if len(layout.before) + len(layout.after) < turns else 0
