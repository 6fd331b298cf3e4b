"""Search over an HTTP retriever with the wire format of Search-R1's retrieval server.

``POST <url> {"queries": [text], "topk": n, "return_scores": true}`` returns ``{"result": [[item, ...]]}``. An
item is ``{"document": {"contents": text}, "score": s}`` or a document itself: ``{"contents": text}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mappa_env.errors import OptionError, ToolUnavailable
from mappa_env.tools.base import Answer, BaseTool, CallSite
from mappa_env.tools.http import Broken, NotSent, Reply, TooLate, post
from mappa_env.tools.secrets import Hidden

_OWN_QUESTION = "city"
"""What the host asks to find out whether a server fails on everything, or on the agent's query."""
_LONGEST = 1000


class RetrieverTool(BaseTool):
    """Asks a retriever. Its results are the server's word.

    ``url``: the whole address, ``http://host:8000/retrieve``. ``top``: passages in a result. ``headers`` may
    name secrets (``Bearer $TOKEN``). Raises OptionError.
    """

    attester = "server"
    description = "Searches a collection of documents. Returns the passages that match best."
    parameters = {"query": {"type": "string", "description": "what to look for"}}  # noqa: RUF012

    def __init__(
        self,
        url: str,
        *,
        top: int = 3,
        headers: Mapping[str, Hidden] | None = None,
        description: str = "",
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise OptionError(f"url={url!r} must begin with http:// or https://.")
        if type(top) is not int or not 1 <= top <= 100:
            raise OptionError(f"top={top!r} must be an integer from 1 to 100.")
        self._url, self._top, self._headers = url, top, dict(headers or {})
        if description:
            self.description = description

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer:
        """See ``Tool.call``. A server that fails on the host's own question, too, is unavailable."""
        try:
            return self._answer(arguments["query"][:_LONGEST], site)
        except TooLate:
            return Answer("timeout", f"the retriever did not answer within {site.limits.wall_s:g} s")
        except NotSent as error:
            raise ToolUnavailable(f"the retriever cannot be reached: {error}") from None

    def _answer(self, query: str, site: CallSite) -> Answer:
        try:
            reply = self._ask(query, site)
        except Broken as error:
            return self._failed(str(error), site)
        if not reply.whole:
            return Answer("output_limit", f"the answer has more than {site.limits.result_cap_kb} KiB")
        if reply.status != 200:  # 403, too: a firewall may dislike the query
            return self._failed(f"HTTP {reply.status}", site)
        return _read(reply.body, self._top)

    def _failed(self, how: str, site: CallSite) -> Answer:
        """Who is to blame: the query, if the host's own question is answered, else nobody."""
        try:
            works = self._ask(_OWN_QUESTION, site).status == 200
        except (NotSent, Broken):
            if not site.left:  # no time to find out: the query took it
                raise TooLate from None
            works = False
        if not works:
            raise ToolUnavailable(f"the retriever fails on any query: {how}. Check its url and headers")
        return Answer("error", f"the retriever fails on this query: {how}")

    def _ask(self, query: str, site: CallSite) -> Reply:
        payload = {"queries": [query], "topk": self._top, "return_scores": True}
        headers = {name: value.reveal() for name, value in self._headers.items()}
        cap = site.limits.result_cap_kb << 10
        return post(self._url, payload, headers, deadline=site.deadline, cap=cap)


def _read(body: bytes, top: int) -> Answer:
    try:
        rows = json.loads(body)["result"][0]
        texts = [_contents(row) for row in rows[:top]]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return Answer("error", "the retriever's answer does not have the form of Search-R1's")
    if not texts:
        return Answer("ok", "No document matches.")
    return Answer("ok", "\n\n".join(f"[{i}] {text}" for i, text in enumerate(texts, 1)))


def _contents(row: Any) -> str:
    document = row.get("document", row) if isinstance(row, dict) else row
    text = document["contents"] if isinstance(document, dict) else document
    if not isinstance(text, str):
        raise TypeError(f"contents are {type(text).__name__}")
    return text
