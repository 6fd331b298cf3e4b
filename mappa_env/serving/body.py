"""The body of a request: read within limits, and checked field by field."""

from __future__ import annotations

import json
from typing import Any

import anyio
from starlette.requests import Request

from mappa_env.errors import nearest
from mappa_env.serving.limits import SEED_BOUND, Limits
from mappa_env.serving.refusal import Refusal

_JSON = "application/json"


async def read(request: Request, limits: Limits, *names: str) -> dict[str, Any]:
    """The fields ``names`` of the JSON object in the body, those that are there. Raises Refusal."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:  # a foreign web page could send other types without asking
        raise Refusal(415, f"the content type {kind[:80]!r} must be {_JSON}.")
    try:
        with anyio.fail_after(limits.read_s):
            data = await _bytes(request, limits.body_bytes)
    except TimeoutError:
        raise Refusal(408, f"the body was not here within {limits.read_s:g} s: send it again.") from None
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {str(error)[:200]}.") from None
    if not isinstance(found, dict):
        raise Refusal(400, f"the body must be a JSON object, found {type(found).__name__}.")
    for name in found:
        if name not in names:
            known = ", ".join(names)
            raise Refusal(400, f"unknown field {name[:80]!r}; there are {known}.{nearest(name[:80], names)}")
    return found


def seed_of(fields: dict[str, Any]) -> int | None:
    """``seed``; None if it is left out. Raises Refusal."""
    seed = fields.get("seed")
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEED_BOUND:
        raise Refusal(400, f"seed={seed!r:.80} must be a whole number from 0 to 2**63 - 1.")
    return seed


def options_of(fields: dict[str, Any]) -> dict[str, Any] | None:
    """``options`` of a reset; None if they are left out. Raises Refusal."""
    options = fields.get("options")
    if options is None:
        return None
    if not isinstance(options, dict):
        raise Refusal(400, f"options={options!r:.80} must be an object, like {{'task_id': '...'}}.")
    task = options.get("task_id")
    if task is not None and not isinstance(task, str):
        raise Refusal(400, f"options.task_id={task!r:.80} must be a text; GET /tasks lists them.")
    return options


def action_of(fields: dict[str, Any]) -> str:
    """``action``. Raises Refusal."""
    action = fields.get("action")
    if not isinstance(action, str):
        raise Refusal(400, f"action={action!r:.80} must be a text: {{'action': '...'}}.")
    return action


async def _bytes(request: Request, most: int) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise Refusal(413, f"the body is larger than {most:,} bytes: send less.")
    return bytes(data)
