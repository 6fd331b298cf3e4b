"""The addresses of a served environment."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from mappa_env.errors import MappaError
from mappa_env.serving.body import action_of, options_of, read, seed_of
from mappa_env.serving.hosted import Hosted
from mappa_env.serving.limits import Limits
from mappa_env.serving.loopback import is_loopback
from mappa_env.serving.refusal import Refusal
from mappa_env.serving.threads import in_thread

_LOG = logging.getLogger(__name__)
_SWEEPS = 4
"""How often idle episodes are looked for, within ``idle_s``."""


@dataclass(frozen=True, slots=True)
class Door:
    """Who may enter. ``token``: what every request must carry; empty: none, and then only on loopback."""

    token: str

    def check(self, request: Request) -> None:
        """Raises Refusal."""
        if self.token:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                raise Refusal(401, "the token is missing or wrong: send 'Authorization: Bearer <token>'.")
        elif not is_loopback(_host(request)):  # a foreign web page under a name that leads here
            raise Refusal(403, "this server answers requests to localhost and loopback addresses alone.")


def make_app(
    hosted: Hosted, about: dict[str, Any], task_ids: Sequence[str], limits: Limits, door: Door
) -> Starlette:
    """The application; ``about`` is what ``GET /environment`` answers."""

    async def environment(request: Request) -> Response:
        return answer(about)

    async def tasks(request: Request) -> Response:
        return answer({"tasks": list(task_ids)})

    async def create(request: Request) -> Response:
        fields = await read(request, limits, "seed", "options")
        return answer(await _call(hosted.create, seed_of(fields), options_of(fields)), 201)

    async def reset(request: Request) -> Response:
        fields = await read(request, limits, "seed", "options")
        return answer(await _call(hosted.reset, _name(request), seed_of(fields), options_of(fields)))

    async def step(request: Request) -> Response:
        fields = await read(request, limits, "action")
        return answer(await _call(hosted.step, _name(request), action_of(fields)))

    async def close(request: Request) -> Response:
        await _call(hosted.close, _name(request))
        return Response(status_code=204)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async def sweep() -> None:
            while True:
                await anyio.sleep(limits.idle_s / _SWEEPS)
                await in_thread(hosted.close_idle)

        async with anyio.create_task_group() as group:
            group.start_soon(sweep)
            yield
            group.cancel_scope.cancel()
        hosted.close_all()

    return Starlette(
        routes=[
            Route("/environment", _guarded(environment, door)),
            Route("/tasks", _guarded(tasks, door)),
            Route("/episodes", _guarded(create, door), methods=["POST"]),
            Route("/episodes/{id}/reset", _guarded(reset, door), methods=["POST"]),
            Route("/episodes/{id}/step", _guarded(step, door), methods=["POST"]),
            Route("/episodes/{id}", _guarded(close, door), methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: _elsewhere, Exception: _failed},
        lifespan=lifespan,
    )


def answer(document: dict[str, Any], status: int = 200) -> Response:
    """A JSON document. In ASCII, because agents' texts may hold what UTF-8 cannot."""
    text = json.dumps(document, allow_nan=False)
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    if status in (401, 429):
        headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {"Retry-After": "1"}
    return Response(text, status, headers, "application/json")


def _guarded(
    handle: Callable[[Request], Awaitable[Response]], door: Door
) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        try:
            door.check(request)
            return await handle(request)
        except Refusal as refusal:
            return answer({"error": refusal.message}, refusal.status)
        except MappaError as error:  # of the environment, not of the client: its words are for the host
            _LOG.error("%s failed: %s", request.scope["route"].path, error)
            return _failure(503)
        except ClientDisconnect:  # nobody waits for the answer, and nothing failed here
            return answer({"error": "the client hung up before its request was here."}, 400)
        except asyncio.CancelledError:  # SIGTERM or Ctrl-C, and the call took longer than ``stop_s``
            return answer({"error": "the server ends: the call was given up."}, 503)

    return guarded


async def _elsewhere(request: Request, error: Exception) -> Response:
    """An address or a method that does not exist."""
    assert isinstance(error, HTTPException)
    known = (
        "GET /environment, GET /tasks, POST /episodes, POST /episodes/<id>/reset, POST /episodes/<id>/step"
    )
    return answer({"error": f"{error.detail}. There are {known}, DELETE /episodes/<id>."}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    """A defect of the environment or of this server, which logs it."""
    return _failure(500)


def _failure(status: int) -> Response:
    return answer({"error": "the environment failed; the server's log says why."}, status)


async def _call(work: Callable[..., Any], *arguments: Any) -> Any:
    return await in_thread(partial(work, *arguments))


def _name(request: Request) -> str:
    return str(request.path_params["id"])


def _host(request: Request) -> str:
    """The name by which the client calls this server; empty if it says none."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""
