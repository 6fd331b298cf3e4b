"""One HTTP request with a deadline and a bound on the answer's size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import requests
import urllib3.exceptions as pool

_CHUNK = 1 << 16
_NEVER_MADE = (pool.NewConnectionError, pool.NameResolutionError, pool.SSLError, pool.ProxyError)


class Reply(NamedTuple):
    """A status and a body. ``whole``: the body was not longer than allowed."""

    status: int
    body: bytes
    whole: bool


class NotSent(Exception):
    """No connection came about, so the server has not seen the request."""


class TooLate(Exception):
    """The deadline passed."""


class Broken(Exception):
    """The connection broke after the request was sent."""


def post(url: str, payload: Any, headers: Mapping[str, str], *, deadline: float, cap: int) -> Reply:
    """POST ``payload`` as JSON. Follows no redirect. Raises NotSent, TooLate, Broken.

    ``deadline`` is a time of ``time.monotonic()``; ``cap`` the most bytes that are read. The exceptions name
    the kind of failure only: texts of the library may quote headers.
    """
    body = bytearray()
    try:
        with requests.post(
            url,
            json=payload,
            headers={"Accept-Encoding": "identity", **headers},  # an archive could be a bomb
            auth=_as_they_are,
            stream=True,
            timeout=max(deadline - time.monotonic(), 0.001),
            allow_redirects=False,
        ) as response:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                body += chunk
                if len(body) > cap:
                    return Reply(response.status_code, bytes(body[:cap]), False)
                if time.monotonic() > deadline:
                    raise TooLate
            return Reply(response.status_code, bytes(body), True)
    except requests.ConnectTimeout:
        raise NotSent("no connection in time") from None
    except requests.Timeout:
        raise TooLate from None
    except pool.ReadTimeoutError:
        raise TooLate from None
    except pool.HTTPError:
        raise Broken("the connection broke") from None
    except requests.ConnectionError as error:
        if _unconnected(error):
            raise NotSent("no connection") from None
        raise Broken("the connection broke") from None
    except requests.RequestException as error:
        raise Broken(type(error).__name__) from None


def _as_they_are(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keep the headers: without an ``auth``, requests replaces them by what ``~/.netrc`` has for the host."""
    return request


def _unconnected(error: BaseException) -> bool:
    """Whether the connection was never made: refused, unknown host, no route, no TLS."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, pool.MaxRetryError):
        cause = cause.reason
    return isinstance(cause, _NEVER_MADE)
