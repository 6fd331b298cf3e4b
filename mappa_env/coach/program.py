"""Code that an action ran: the files that it opened or names, and how it failed."""

from __future__ import annotations

import contextlib
import functools
import io
import posixpath
import re
import tokenize
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mappa_env.coach.calls import may_open
from mappa_env.types import ToolResult

BLUNDERS = {"SyntaxError", "IndentationError", "TabError", "NameError", "ImportError", "ModuleNotFoundError"}
"""Exceptions of a program's own text. Only an input that is known to raise the same one explains them."""
_TAIL = 4000
_WORD = re.compile(r"[\w.-]+")
_STARTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_BLANK = (tokenize.NL, tokenize.COMMENT, tokenize.ENCODING)
_EXCEPTION = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration|Warning))\b[^\n]*", re.M
)
_FRAME = re.compile(r'^ *File "<action>", line (\d+)', re.M)
_READS = re.compile(r"\b(?:loads?|open|read\w*|\w*Unpickler)\s*\(")
"""Calls that read files."""


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
        """Whether it failed, and the host found the workspace full: before or, without a blunder, after."""
        space = self.tool.space
        if space is None or self.tool.status not in ("error", "disk_limit"):
            return False
        return space.full_before or (space.full_after and (self.failed or self.tool.status != "error"))

    def failed_reading(self, path: str) -> bool:
        """Whether it failed over the content of ``path``, as far as can be told.

        Of the files that it did not write, it opened none later; and if its tracebacks name lines of its
        code, one of those reads something.
        """
        if not self.failed or not self.uses(path):
            return False
        read = [name for name in self.tool.opened or (path,) if name not in self.tool.written]
        if read[-1:] != [path]:
            return False
        code = self.code.splitlines()
        lines = [code[int(at) - 1] for at in _FRAME.findall(self.tool.stderr) if 0 < int(at) <= len(code)]
        return not lines or any(_READS.search(line) for line in lines)

    def aims_at(self, paths: Iterable[str]) -> int:
        """How many of ``paths`` it was seen to use, or has the names of in string literals.

        Names tell what a program was for that failed before it used a file. They may lower a score and choose
        among one agent's actions, but excuse nothing: code that does not run may name anything. What went
        unobserved counts for nothing here, since it would count against the agent.
        """
        words, opened = _literal_words(self.code), self.tool.opened or ()
        return sum(path in words or path in opened for path in set(paths))

    def uses(self, path: str, *, listed: bool = False) -> bool:
        """Whether it opened ``path`` or asked for it; if that went unobserved, whether its code may have.

        ``listed``: to list its folder counts, too, which shows whether it is there.
        """
        opened = self.tool.opened
        if opened is None:
            return may_open(self.code)
        folder = f"{posixpath.dirname(path) or '.'}/"
        return path in opened or (listed and folder in opened)


def exception_of(tool: ToolResult) -> tuple[str, str]:
    """(class name, whole line) of the last exception in the traceback; two empty strings if there is none."""
    found = exceptions_of(tool)
    return found[-1] if found else ("", "")


def exceptions_of(tool: ToolResult) -> list[tuple[str, str]]:
    """The same of all exceptions in the traceback: the last may have been raised while handling others."""
    found = _EXCEPTION.finditer(tool.stderr[-_TAIL:])
    return [(match[1].rsplit(".", 1)[-1], match[0][:160]) for match in found]


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    """All but strings that stand alone, which are remarks.

    It reads no syntax tree: code that agents write may nest without end.
    """
    begins = True
    with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):  # the tokens up to there count
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if not (begins and token.type == tokenize.STRING):
                yield token
            begins = token.type in _STARTS or (begins and token.type in _BLANK)


@functools.lru_cache(maxsize=4096)
def _literal_words(code: str) -> frozenset[str]:
    found = set[str]()
    for token in _tokens(code):
        if tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE"):
            found.update(word.strip(".") for word in _WORD.findall(token.string))
    return frozenset(found)
