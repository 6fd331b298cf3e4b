"""What the text of an action claims, held against what its code really did. Linear time on any string."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterable, Iterator

from mappa_env.types import AgentSpec

MAX_CLAIMS = 32
_REACH = 300
"""Characters before and after a verb in which the file names of its claim are looked for."""

_DONE = re.compile(r"\b(?:saved|wrote|written|stored|exported|dumped)\b", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|never|cannot|fail(?:ed|s)?|without|if|once|when|after|until|should|must|will|to be)\b|n't",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\s'\"`,;:()\[\]{}<>|=]+")
_FILE = re.compile(
    r"[\w./-]+\.(?:pkl|pickle|joblib|csv|tsv|npy|npz|parquet|feather|json|txt|h5|pt|pth|bin|onnx|xlsx|zip)",
    re.IGNORECASE,
)


def unbacked_claims(text: str, stdout: str, written: Iterable[str]) -> tuple[str, ...]:
    """Files that ``text`` (outside of fences) or ``stdout`` says were saved and that are not in ``written``.

    At most MAX_CLAIMS names in order of appearance, relative to the workspace.
    """
    if not (_DONE.search(text) or _DONE.search(stdout)):  # most actions claim nothing
        return ()
    done = set(written)
    claimed: dict[str, None] = {}
    for line in _claiming_lines(text, stdout):
        for name in _files(line):
            if name not in done:
                claimed[name] = None
        if len(claimed) >= MAX_CLAIMS:
            break
    return tuple(claimed)[:MAX_CLAIMS]


def claims_to_save(text: str, stdout: str) -> bool:
    """Whether ``text`` or ``stdout`` says that anything was saved, named or not (``Saved (120, 4)``)."""
    return any(True for _ in _claiming_lines(text, stdout))


def missing_inputs(agent: AgentSpec, present: Container[str]) -> tuple[str, ...]:
    """The files that ``agent`` reads and that are not ``present``."""
    return tuple(name for name in agent.reads if name not in present)


def _claiming_lines(text: str, stdout: str) -> Iterator[str]:
    for line in (*_prose(text), *stdout.split("\n")):
        verb = _DONE.search(line)
        if verb is None:
            continue
        start = max(verb.start() - _REACH, 0)
        if not _NOT.search(line, start, verb.start()):
            yield line[start : verb.end() + _REACH]


def _prose(text: str) -> Iterator[str]:
    """The lines outside of code fences: code that would print a claim has not claimed anything yet."""
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def _files(line: str) -> Iterator[str]:
    for token in _SEPARATORS.split(line):
        token = token.strip("*.!?")
        if len(token) <= _REACH and _FILE.fullmatch(token):
            yield posixpath.basename(token) if token.startswith("/") else posixpath.normpath(token)
