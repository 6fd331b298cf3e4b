"""How figures look: colours that follow the page's light or dark mode, and SVG to put into a page."""

from __future__ import annotations

import io
import re
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#010101")
"""Okabe and Ito's palette: distinct with every kind of colour vision. Dark mode has its own shades."""
INK, FAINT, GRID = "#333333", "#d9d9d9", "#eeeeee"
BEFORE, AFTER = "#9a9a9a", COLOURS[0]
VARIABLES = {
    **{colour: f"--c{index}" for index, colour in enumerate(COLOURS)},
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
    BEFORE: "--before",
}
"""Colour in a figure -> the CSS variable of the page that replaces it."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
}


def svg(figure: Figure, name: str) -> str:
    """The figure as markup for an HTML page: no prolog, no metadata, no reference to anything outside.

    ``name`` keeps the ids of several figures on one page apart; the same figure gives the same markup.
    Colours become CSS variables, with the light mode's colour as a fallback.
    """
    buffer = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", text)
    text = re.sub(r'style="[^"]*"', lambda match: _themed(match[0]), text)
    return text.replace("xlink:href", "href")


def colour_of(index: int) -> str:
    """The colour of the line with this index; colours repeat after the last."""
    return COLOURS[index % len(COLOURS)]


def variable_of(index: int) -> str:
    """The CSS variable of the line with this index."""
    return VARIABLES[colour_of(index)]


def literal(label: str) -> str:
    """A label that matplotlib shows as it is: no mathematics, and no leading underscore, which hides it."""
    return label.replace("$", r"\$").lstrip("_") or "-"


def _themed(style: str) -> str:
    return re.sub(
        r"#[0-9a-f]{6}",
        lambda match: f"var({VARIABLES[match[0]]}, {match[0]})" if match[0] in VARIABLES else match[0],
        style,
    )
