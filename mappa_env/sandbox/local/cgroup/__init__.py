"""Control groups: one per action, if this process may make some. Otherwise only polling bounds an action."""

from mappa_env.sandbox.local.cgroup.finding import find
from mappa_env.sandbox.local.cgroup.leaf import Leaf, Leaves

__all__ = ["Leaf", "Leaves", "find"]
