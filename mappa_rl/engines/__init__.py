"""Generation engines. ``base`` holds the contract; backends are imported where they are named."""

from mappa_rl.engines.base import Engine, Generation, Request

__all__ = ["Engine", "Generation", "Request"]
