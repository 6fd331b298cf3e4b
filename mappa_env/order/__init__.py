"""Whose turn it is: the order that a card gives its team, followed action by action."""

from mappa_env.order.conditions import said
from mappa_env.order.order import Order, Turn
from mappa_env.order.reading import read_order
from mappa_env.order.segments import Segment

__all__ = ["Order", "Segment", "Turn", "read_order", "said"]
