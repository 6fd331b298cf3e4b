"""Extra turns before and after the work in a segment, so that a fault is not always in the same turn.

The first turn of a script does the work; later turns report it. Scripts do not see extra turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mappa_env.types import Team

EXTRAS = {
    "look": "First I look at what is there.\n\n```python\nimport os\nprint(sorted(os.listdir('.')))\n```",
    "stumble": "First I look at what is there.\n\n```python\nprint(sorted(os.listdir('.')))\n```",
}
"""``stumble`` raises a harmless NameError."""
WORK = "work"
"""An extra turn that does the work correctly."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``agent`` has extra turns ``before`` and ``after`` its work; the others act as scripted."""

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
        """The turn in which ``agent`` acts turn ``own`` of its script."""
        if agent != self.agent:
            return own
        return own + len(self.before) + (len(self.after) if own else 0)


PLAIN = Layout("plain")


def layouts(team: Team, agent: str, own: int) -> Iterator[Layout]:
    """Every layout in which ``agent`` still reaches turn ``own`` of its script.

    Only agents that write files look afterwards: other agents pass on their last output.
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
    """The agent's maximum number of turns; 0 if its extra turns leave none for its work."""
    turns = team[layout.agent].max_turns
    return turns if len(layout.before) + len(layout.after) < turns else 0
