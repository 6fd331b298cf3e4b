"""Generation engines. ``base`` holds the protocol; ``make`` imports the backend that a run names."""

from mappa_rl.engines.base import Engine, Generation, Request

__all__ = ["Engine", "Generation", "Request"]
