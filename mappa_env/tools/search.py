"""Search over a folder of documents, on this host: BM25 as the library ``bm25s`` computes it."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mappa_env.errors import OptionError
from mappa_env.tools.base import Answer, BaseTool, CallSite
from mappa_env.tools.corpus import Passage, read_passages

LONGEST = 1000
"""Characters of a query that are used."""
_ALONE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Letters of languages that put no space between words (Chinese, Japanese): each is a word."""
_WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")


class SearchTool(BaseTool):
    """Finds passages. The host reads the documents and ranks them, so it attests the result.

    The same query always finds the same passages, in the same order: those with an equal score come in the
    order of their paths. ``folder``: the documents (``mappa_env.tools.corpus``). ``top``: the number of
    passages in a result. ``passage_words``: the length of a passage. Raises OptionError.
    """

    guarded = False
    description = "Searches a collection of documents. Returns the passages that match the words best."
    parameters = {"query": {"type": "string", "description": "words to look for"}}  # noqa: RUF012

    def __init__(self, folder: str, *, top: int = 3, passage_words: int = 200, description: str = "") -> None:
        if type(top) is not int or not 1 <= top <= 100:
            raise OptionError(f"top={top!r} must be an integer from 1 to 100.")
        if type(passage_words) is not int or passage_words < 10:
            raise OptionError(f"passage_words={passage_words!r} must be an integer of 10 or more.")
        if not Path(folder).is_dir():
            raise OptionError(f"folder={folder!r} does not exist: name a folder of documents.")
        self._top = top
        self._index = _Index.of(str(folder), passage_words)
        if description:
            self.description = description

    def call(self, name: str, arguments: Mapping[str, Any], site: CallSite) -> Answer:
        """The best passages; the paths of their documents are ``facts["documents"]``."""
        found = self._index.find(arguments["query"][:LONGEST], self._top)
        if not found:
            return Answer("ok", "No document matches.", {"documents": []})
        text = "\n\n".join(f"[{i}] {each.title}\n{each.text}" for i, each in enumerate(found, 1))
        return Answer("ok", text, {"documents": [each.document for each in found]})


class _Index:
    """The passages of a folder and their index. Never changes, so all tools on one folder share it."""

    def __init__(self, folder: str, words: int) -> None:
        import bm25s  # lazy: takes a third of a second

        self._passages = read_passages(Path(folder), words)
        corpus = [_words(f"{each.title} {each.text}") for each in self._passages]
        self._model = bm25s.BM25(method="lucene") if any(corpus) else None
        if self._model is not None:
            self._model.index(corpus, show_progress=False)

    @staticmethod
    @functools.lru_cache(maxsize=8)
    def of(folder: str, words: int) -> _Index:
        """The index of a folder, made once in a process."""
        return _Index(folder, words)

    def find(self, query: str, top: int) -> list[Passage]:
        """The passages with the highest positive scores, the best first."""
        if self._model is None:
            return []
        words = [word for word in _words(query) if word in self._model.vocab_dict]
        if not words:
            return []
        scores = self._model.get_scores(words)
        order = np.lexsort((np.arange(len(scores)), -scores))[:top]
        return [self._passages[i] for i in order if scores[i] > 0]


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
