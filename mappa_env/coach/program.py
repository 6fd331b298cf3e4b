"""Code that an action ran: the files that it uses, the words it names, and how it failed."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from mappa_env.types import Space, ToolResult

BLUNDERS = {"SyntaxError", "IndentationError", "TabError", "NameError", "ImportError", "ModuleNotFoundError"}
"""Exceptions of a program's own text. Only an input that is known to raise the same one explains them."""
_TAIL = 4000
_LITTLE, _FEW = 2**20, 8
"""Bytes and entries: with less than either, a workspace is full."""
_WORD = re.compile(r"[\w.-]+")
_EXCEPTION = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration|Warning))\b[^\n]*", re.M
)
_FRAME = re.compile(r'^ *File "<action>", line (\d+)', re.M)
_SPACE = re.compile(r"\[?Errno (28|122)\b|No space left on device|Disk quota exceeded")
_SAYS = re.compile(r"print|str|repr|format|len|type|input|exit|quit|(\w*(Error|Exception|Exit|Warning))")
"""Calls that take a file's name as words: none of them opens it or looks for it."""
_RAISES = re.compile(r"\s*(raise|assert|(sys\.)?exit)\b")
_READS = re.compile(r"\b(?:loads?|open|read\w*|\w*Unpickler)\s*\(")
"""Calls that read files."""
_FIELD = re.compile(r"\{[^{}]*\}|%s")
_LONGEST = 200


class Program(NamedTuple):
    """Code that ran, and its run."""

    code: str
    tool: ToolResult

    @property
    def failed(self) -> bool:
        """Whether it failed for a reason that its inputs may explain."""
        return self.tool.status == "error" and exception_of(self.tool)[0] not in BLUNDERS

    @property
    def out_of_space(self) -> bool:
        """Whether it failed because the workspace was full: it says so, or the host found it full before."""
        if self.tool.status != "error":
            return self.tool.status == "disk_limit"
        return _SPACE.search(exception_of(self.tool)[1]) is not None or _full(self.tool.space)

    @property
    def failed_reading(self) -> bool:
        """Whether the last of its lines in the traceback reads something; True if there is no such line."""
        lines = [int(line) for line in _FRAME.findall(self.tool.stderr)]
        text = "".join(self.code.splitlines()[lines[-1] - 1 : lines[-1]]) if lines else ""
        return not lines or (_READS.search(text) is not None and _RAISES.match(text) is None)

    @property
    def names(self) -> frozenset[str]:
        """The words in its string literals, file names among them; comments do not count."""
        return _literal_words(self.code)

    def uses(self, path: str) -> bool:
        """Whether it came to a call that takes ``path``, such as ``open``; to say the name is no use.

        A program that fails used what is called up to the last of its lines in the traceback. An exception of
        Python that names the file shows a use, too, in whatever way the program puts the name together.
        """
        raised = self.tool.status == "error"
        lines = [int(line) for line in _FRAME.findall(self.tool.stderr)] if raised else []
        first = _first_use(self.code, path)
        if first is not None and (not lines or first <= max(lines)):
            return True
        if not lines or path not in {word.strip(".") for word in _WORD.findall(exception_of(self.tool)[1])}:
            return False
        text = self.code.splitlines()[lines[-1] - 1 : lines[-1]]
        return bool(text) and _RAISES.match(text[0]) is None


def _full(space: Space | None) -> bool:
    """Whether others had left an action next to nothing of the quota."""
    if space is None:
        return False
    used = space.before.values()
    entries = space.quota.entries - sum(use.entries for use in used)
    return entries < _FEW or space.quota.size - sum(use.size for use in used) < _LITTLE


def exception_of(tool: ToolResult) -> tuple[str, str]:
    """(class name, whole line) of the last exception in the traceback; two empty strings if there is none."""
    found = list(_EXCEPTION.finditer(tool.stderr[-_TAIL:]))
    return (found[-1][1].rsplit(".", 1)[-1], found[-1][0][:160]) if found else ("", "")


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    """Reads tokens, not the syntax tree: code that agents write may nest without end."""
    with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):  # the tokens up to there count
        yield from tokenize.generate_tokens(io.StringIO(code).readline)


@functools.lru_cache(maxsize=4096)
def _literal_words(code: str) -> frozenset[str]:
    found = set[str]()
    for token in _tokens(code):
        if tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE"):
            found.update(word.strip(".") for word in _WORD.findall(token.string))
    return frozenset(found)


class _Mention(NamedTuple):
    """A variable or a file name in ``text`` on ``line``; ``used``: an argument of a call, or of ``/``.

    ``into``: the variables that the statement around it assigns.
    """

    text: str
    variable: bool
    line: int
    used: bool
    into: frozenset[str]


@functools.lru_cache(maxsize=4096)
def _first_use(code: str, path: str) -> int | None:
    """The first line with a call that takes ``path``, directly or by way of variables."""
    holders, found = set[str](), list[_Mention]()
    mentions = [mention for statement in _statements(code) for mention in _mentions(statement)]
    for _ in range(5):  # a list of names, its items, a path made of one ...
        found = [
            mention
            for mention in mentions
            if (mention.text in holders if mention.variable else fnmatch.fnmatchcase(path, mention.text))
        ]
        holders.update(*(mention.into for mention in found))
    return min((mention.line for mention in found if mention.used), default=None)


def _statements(code: str) -> Iterator[list[tokenize.TokenInfo]]:
    statement: list[tokenize.TokenInfo] = []
    for token in _tokens(code):
        if token.type == tokenize.NEWLINE or (token.type == tokenize.OP and token.string == ";"):
            yield statement
            statement = []
        elif token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            statement.append(token)
    yield statement


def _mentions(statement: list[tokenize.TokenInfo]) -> Iterator[_Mention]:
    into, calls, before = _targets(statement), list[str](), ""
    for token in statement:
        if token.type == tokenize.OP and token.string in "([{":
            is_call = token.string == "(" and before.isidentifier() and not keyword.iskeyword(before)
            calls.append(before if is_call else "")
        elif token.type == tokenize.OP and token.string in ")]}":
            del calls[-1:]
        elif (name := _file_name(token)) or token.type == tokenize.NAME:
            called = next((call for call in reversed(calls) if call), "/" if before == "/" else "")
            used = bool(called) and not _SAYS.fullmatch(called)
            yield _Mention(name or token.string, not name, token.start[0], used, into)
        before = token.string


def _targets(statement: list[tokenize.TokenInfo]) -> frozenset[str]:
    """The variables left of ``=``, between ``for`` and ``in``, and the parameters with a default."""
    found, pending, looped = set[str](), set[str](), False
    for token in statement:
        if token.type == tokenize.NAME and token.string == "for":
            pending, looped = set(), True
        elif looped and token.type == tokenize.NAME and token.string == "in":
            found |= pending
            pending, looped = set(), False
        elif token.type == tokenize.OP and token.string in ("=", ":="):
            found |= pending
            pending = set()
        elif token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            pending.add(token.string)
    return frozenset(found)


def _file_name(token: tokenize.TokenInfo) -> str:
    """The file that a string names, as a pattern; empty if it names none."""
    if tokenize.tok_name[token.type] != "STRING":
        return ""
    quote = token.string[-1]
    body = token.string.partition(quote)[2].strip(quote)
    body = _FIELD.sub("*", body).rpartition("/")[2]
    return body if "." in body and len(body) <= _LONGEST and not re.search(r"\s", body) else ""
