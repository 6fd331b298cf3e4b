"""A request that is not carried out, and why."""

from __future__ import annotations


class Refusal(Exception):
    """``status``: of HTTP; ``message`` names the value and the remedy."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
