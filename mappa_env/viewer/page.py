"""The page: its built script and style, and the policy under which a browser runs them."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
SCRIPT, STYLE = "viewer.js", "viewer.css"
VIEWER, REPORT = "viewer.html", "report.html"
"""The page beside a run's report, whose links lead to it: as a file, or as the server has both."""
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src {connect}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""Nothing runs but the viewer's own script, and nothing is asked of any other server."""


@cache
def asset(name: str) -> str:
    """A built file, ``SCRIPT`` or ``STYLE``."""
    return (STATIC / name).read_text(encoding="utf-8")


def served_policy() -> str:
    """The Content-Security-Policy of the served page."""
    served = POLICY.format(script="'self'", style="'self'", connect="'self'")
    return f"{served}; frame-ancestors 'none'"


def report_policy() -> str:
    """The Content-Security-Policy of the served report, in which nothing runs."""
    return (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def served_page(title: str) -> str:
    """The page of the server, which loads script, style and episodes from it."""
    head = f'<link rel="stylesheet" href="/{STYLE}"><script type="module" src="/{SCRIPT}"></script>'
    return _page(title, head, "")


def single_page(title: str, blocks: Iterable[tuple[str, str]]) -> Iterable[str]:
    """The parts of a page that needs no server. ``blocks``: id and JSON (``plain.to_json``) of its data."""
    script, style = asset(SCRIPT), asset(STYLE)
    policy = POLICY.format(script=_digest(script), style=_digest(style), connect="'none'")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}"><style>{style}</style>'
    )
    before, after = _page(title, head, "\0").split("\0")
    yield before
    for name, data in blocks:
        yield f'<script type="application/json" id="{html.escape(name)}">{data}</script>\n'
    yield f"<script>{script}</script>{after}"


def _page(title: str, head: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<title>{html.escape(title)} - MAPPA</title><link rel="icon" href="data:,">{head}</head>\n'
        f'<body><div id="viewer"></div>\n{body}</body></html>\n'
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
