"""Colours for rendered actions: what an agent read, did and earned, at a glance."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

from mappa_env.envs.rendering import encodable, printable

STYLES = {
    "prompt": "dim",
    "thinking": "dim italic",
    "stderr": "red",
    "outcome": "bold",
    "learned": "magenta",
}
"""Section -> style of its lines; others have none."""
GOOD, FAIR, BAD, NONE = "green", "yellow", "red", "bright_black"
_SCORE = re.compile(r"(\d+(?:\.\d+)?)/10")
_CRITERION = re.compile(r" *(\d+)% of ")
_QUOTE = re.compile(r'"[^"]*"')
_FILE = re.compile(r" *(created|modified|deleted|renamed|type_changed)\b")
_FILES = {"created": GOOD, "deleted": BAD}


class Painter:
    """Prints rendered text line by line, with a style for each section.

    Only headings begin at the left margin, so that no text of an agent passes for one. Control characters
    never reach the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._section = ""

    def print(self, text: str) -> None:
        """Print ``text``, as ``rendering`` makes it."""
        for line in encodable(printable(text)).split("\n"):
            self._console.print(self._painted(line), soft_wrap=True)

    def _painted(self, line: str) -> Text:
        if line.startswith("== "):
            self._section = ""
            return Text(line, "bold cyan")
        if line.startswith("-- "):
            self._section = line[3:].split(" ")[0]
            return Text(line, "bold")
        text = Text(line, STYLES.get(self._section, ""))
        if self._section == "verdict":
            _paint_verdict(text)
        elif self._section == "files" and (found := _FILE.match(line)):
            text.stylize(_FILES.get(found[1], FAIR), found.start(1), found.end(1))
        return text


def of_score(score: float | None) -> str:
    """The colour of a score within 0-10."""
    if score is None:
        return NONE
    return GOOD if score >= 7 else FAIR if score >= 4 else BAD


def _paint_verdict(text: Text) -> None:
    line = text.plain
    if found := _CRITERION.match(line):
        text.stylize(of_score(int(found[1]) / 10), found.start(1), found.end(1) + 1)
        for quote in _QUOTE.finditer(line):
            text.stylize("italic cyan", quote.start(), quote.end())
    elif found := _SCORE.search(line):
        text.stylize(f"bold {of_score(float(found[1]))}", found.start(), found.end())
    elif "no score" in line:
        text.stylize(f"bold {NONE}", line.index("no score"), line.index("no score") + len("no score"))
