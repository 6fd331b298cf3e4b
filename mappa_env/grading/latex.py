r"""LaTeX in one spelling: without spacing, sizes, fonts and colours. Takes linear time on any text.

``clean`` writes operators as single characters (``\le`` and ``<=`` as ``≤``) and text as ``⟦text⟧``;
``to_latex`` turns them back.
"""

from __future__ import annotations

import re

from mappa_env.grading.characters import in_tex

OPEN, CLOSE = "⟦", "⟧"
"""Around text, such as a unit or a word, of any of LaTeX's text commands."""
GROUP = "\x01"
r"""``{,}`` and ``,\!``, which separate thousands and never items."""
DOLLAR = "\x03"
r"""``\$``, money; a bare ``$`` is around mathematics."""
UNIT_LETTERS = "mgshlLNJWVAKCF€£¥"
"""The only letters that are units when they stand alone in a text command; any other is a variable."""
BREAK = "\x02"
r"""``\\\\``, a new line of a matrix."""

_CHARS = str.maketrans(
    {chr(0xFF01 + i): chr(0x21 + i) for i in range(94)}  # full width
    | {
        "−": "-",
        "–": "-",
        "—": "-",
        "‐": "-",
        "⁄": "/",
        "÷": "/",
        "·": "×",
        "⋅": "×",
        "⩽": "≤",
        "⩾": "≥",
        "′": "'",
        "’": "'",
        "″": "''",
        "¢": " cents",
        "ℝ": r"\mathbb{R}",
        "∩": r"\cap ",
    }
    | dict.fromkeys("\u00a0\u2002\u2003\u2009\u200a\u202f\u3000\t\r\n~", " ")
    | dict.fromkeys(f"\u200b\u2060\ufeff{OPEN}{CLOSE}{GROUP}{BREAK}{DOLLAR}")
)
_COLOR = re.compile(
    r"\\(?:text|page)?color(?:box)? *\{[A-Za-z0-9!]{0,20}\}|\\fcolorbox *(?:\{[A-Za-z0-9!]{0,20}\} *){2}"
)
_INVISIBLE = re.compile(r"\\[hv]?phantom *\{[^{}]{0,20}\}|(?<![A-Za-z}^_\\])\{ *\}")
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end) *\{ *(?:aligned|align|gathered|gather|equation|split|displaymath|math|center)\*? *\}"
)
_ROMAN = re.compile(r"\{ *\\rm(?![A-Za-z]) *")
_ROW_SPACE = re.compile(rf"{BREAK} *(?:\* *)?\[ *-?[0-9.]{{1,9}} *(?:[a-z]{{2}}|\\[a-z]{{1,12}}) *\]")
_OVER = re.compile(r"\{([^{}\\]*)\\over(?![A-Za-z])([^{}\\]*)\}")
_ALL_OVER = re.compile(r"([^{}=\\]*)\\over(?![A-Za-z])([^{}=\\]*)")
_BEFORE = re.compile(r" *(?:\\(?:therefore|implies|Rightarrow|rightarrow|Longrightarrow)(?![A-Za-z])|[∴⇒]) *")
_AFTER = re.compile(
    r"(?<=[^ ]) *(?:\\(?:blacksquare|square|Box|qed|qedsymbol|checkmark|blacklozenge)|[✓✔■□∎])$"
)
_TEXT = frozenset(
    [
        "text",
        "textbf",
        "textit",
        "textrm",
        "textsf",
        "texttt",
        "textnormal",
        "mbox",
        "hbox",
        "mathrm",
        "rm",
        "operatorname",
        "emph",
    ]
)
_FONTS = frozenset(
    [
        "mathbf",
        "boldsymbol",
        "bm",
        "mathit",
        "mathsf",
        "mathnormal",
        "boxed",
        "fbox",
        "framebox",
        "smash",
        "pmb",
        "mathop",
        "mathord",
        "underline",
        "ensuremath",
    ]
)
_BRACE = re.compile(r"\\(?:([A-Za-z]+) *\{|[\\{}])|[{}]")
_DROPPED = re.compile(
    r"\\!|\\(?:left|right) *\.|\\(?:left|right|[bB]igg?[lrm]?|(?:display|text|script|scriptscript)style|"
    r"limits|nolimits|(?:math)?strut|hfill|bf|it|tt|sf|em|"
    r"tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge)(?![A-Za-z])"
)
_FONT_OF_ONE = re.compile(r"\\(math(?:bb|cal|frak|scr|bf|rm|it|sf)|boldsymbol|bm) +([A-Za-z])")
_CHOOSE = re.compile(r"\{([^{}\\]*)\\choose(?![A-Za-z])([^{}\\]*)\}")
_SIGN_AS_TEXT = re.compile(rf"{OPEN} ?([%°€£¥{DOLLAR}]) ?{CLOSE}")
_COMMA_AS_TEXT = re.compile(rf"{OPEN}(,){CLOSE}(?=[0-9]{{3}}(?![0-9]))|{OPEN} ?([,;]) ?{CLOSE}")
_SPACE = re.compile(
    r"(?:\\[,;:> ]|\\q?quad(?![A-Za-z])|\\thinspace(?![A-Za-z])|\\[hv]space *\{[^{}]{0,20}\}| )+"
)
_DEGREE = re.compile(r"\^ *(?:\{ *\\circ *\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])|\^ *\{ *° *\}|\^ *°")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_NAMES = {
    **{"dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac", "nicefrac": r"\frac", "sfrac": r"\frac"},
    **{"lg": r"\log_{10}", "backslash": r"\setminus", "smallsetminus": r"\setminus", "colon": ":"},
    **{"lbrace": r"\{", "rbrace": r"\}"},
    **{"le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "lt": "<", "gt": ">"},
    **{"ne": "≠", "neq": "≠", "in": "∈", "cup": "∪", "infty": "∞", "infin": "∞", "pm": "±", "mp": "∓"},
    **{
        "approx": "≈",
        "cdot": "×",
        "times": "×",
        "emptyset": "∅",
        "varnothing": "∅",
        "div": "/",
    },
    **{"lparen": "(", "rparen": ")", "lbrack": "[", "rbrack": "]", "euro": "€", "pounds": "£"},
    **{"R": r"\mathbb{R}", "lor": "∨", "vee": "∨", "land": "∧", "wedge": "∧"},
}
_SYMBOLS = re.compile(r"\\not *=|<=|>=|!=|\\%|\\\$|\{ *[,:] *\}")
_AS = {"{:}": ":", r"\not=": "≠", "<=": "≤", ">=": "≥", "!=": "≠", r"\%": "%", r"\$": DOLLAR}
_THOUSANDS = re.compile(r", ?\\! ?(?=[0-9]{3}(?![0-9]))")
_LOOSE_DOLLAR = re.compile(r"(?<= )\$|\$(?= )")
_LETTER = (
    r"\\(?:pi|theta|alpha|beta|gamma|delta|lambda|mu|rho|sigma|tau|phi|varphi|psi|omega|ell)(?![A-Za-z])"
)
_SHORT_FRACTION = re.compile(rf"\\frac *([0-9]|{_LETTER})(?= *[0-9{{\\])")
_SHORT_BOTTOM = re.compile(rf"(\\frac *\{{[^{{}}]*\}}) *([0-9A-Za-z]|{_LETTER})")
_SHORT_ROOT = re.compile(rf"\\sqrt *([0-9A-Za-z]|{_LETTER})")
_PRIME = re.compile(r" *\^ *(?:\\prime(?![A-Za-z])|\{ *((?:\\prime *)+)\})")
_LOG = re.compile(r"\\log *_ *(?:e(?![A-Za-z])|\{ *e *\})")
_SUBSCRIPT = r"(?:_ ?(?:\{ ?([A-Za-z0-9]{1,9}) ?\}|([A-Za-z0-9])))?"
_PRIMED = re.compile(rf"([A-Za-z]){_SUBSCRIPT}('{{1,9}}){_SUBSCRIPT}")
_TRANSPOSED = re.compile(r"\^ ?(?:\{ ?(?:T|\\top) ?\}|T|\\top(?![A-Za-z]))")
_ANGLE = re.compile(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)?) ?°")
TRIGONOMETRY = re.compile(r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_LONE = re.compile(rf"{OPEN} ?(?![{UNIT_LETTERS}])([A-Za-z]) ?{CLOSE}")
_LONG = re.compile(rf"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")
_I = re.compile(r"(?<=[0-9])i(?![A-Za-z])")
"""Which is the imaginary unit where it stands alone."""
_DECIMAL = re.compile(r"(?<![0-9.])([0-9]*)\.([0-9]+)(?![0-9.]| ?\\(?:overline|bar|dot))")
_LOOSE_SPACE = re.compile(r" +(?![A-Za-z ])|(?<![A-Za-z ]) +")
_BACK = str.maketrans(
    {"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∈": r"\in ", "∪": r"\cup ", "∞": r"\infty ", "±": r"\pm "}
    | {"∓": r"\mp ", "≈": r"\approx ", "×": r"\cdot ", "∅": r"\emptyset ", "°": r"^{\circ}", "%": r"\%"}
    | {BREAK: r"\\", OPEN: r"\text{", CLOSE: "}", GROUP: "{,}", DOLLAR: r"\$", "√": r"\sqrt ", "π": r"\pi "}
    | {"∨": r"\lor ", "∧": r"\land "}
)


def clean(text: str) -> str:
    """The text in one spelling; see the module."""
    text = in_tex(text).translate(_CHARS)
    text = text.replace("\\\\", BREAK if r"\begin" in text else "\\")  # else escaped twice, as in JSON
    text = _without_layout(text)
    text = _FONT_OF_ONE.sub(r"\\\1{\2}", _CHOOSE.sub(r"\\binom{\1}{\2}", text))
    text = _fonts(_COLOR.sub("", _THOUSANDS.sub(GROUP, text)))
    text = _COMMAND.sub(lambda found: _NAMES.get(found[1], found[0]), _DROPPED.sub("", text))
    text = _SYMBOLS.sub(lambda found: _AS.get(found[0].replace(" ", ""), GROUP), _DEGREE.sub("°", text))
    text = _LOG.sub(r"\\ln ", _PRIME.sub(lambda found: "'" * found[0].count("prime"), text))
    text = _SIGN_AS_TEXT.sub(r"\1", text)
    text = _COMMA_AS_TEXT.sub(lambda found: GROUP if found[1] else f"{found[2]} ", text)
    text = _SPACE.sub(" ", _LOOSE_DOLLAR.sub(" ", text)).strip(" $")
    text = _SHORT_FRACTION.sub(r"\\frac{\1}", text)
    return _SHORT_ROOT.sub(r"\\sqrt{\1}", _SHORT_BOTTOM.sub(r"\1{\2}", text)).strip().rstrip("\\ ")


def _without_layout(text: str) -> str:
    """Without empty groups, the spacing of rows and the marks of a proof; with new commands for old ones."""
    text = _ROW_SPACE.sub(BREAK, text)
    if BREAK not in text and _ENVIRONMENT.search(text):
        text = _ENVIRONMENT.sub(" ", text).replace("&", "")
    text = _ROMAN.sub(r"\\mathrm{", _INVISIBLE.sub("", text))
    if (found := _BEFORE.match(text)) and found.end() < len(text):
        text = text[found.end() :]
    text = _AFTER.sub("", text.rstrip())
    text = _OVER.sub(r"\\frac{\1}{\2}", text)
    if found := _ALL_OVER.fullmatch(text):
        text = rf"\frac{{{found[1]}}}{{{found[2]}}}"
    return text


def balanced(text: str) -> bool:
    """Whether every brace has its partner."""
    depth = 0
    for brace in _BRACE.finditer(text):
        if brace[0] == "}":
            depth -= 1
        elif brace[0] == "{" or brace[1]:
            depth += 1
        if depth < 0:
            return False
    return depth == 0


def without_spaces(text: str) -> str:
    """Cleaned text without the spaces that part nothing."""
    return _LOOSE_SPACE.sub("", text)


def without_angles(text: str) -> str:
    """Cleaned text without the degrees of sines and the like, which ``to_latex`` makes radians."""
    return _ANGLE.sub("x", text) if TRIGONOMETRY.search(text) else text


def without_primes(text: str) -> str:
    """Cleaned text without the primes of symbols, which ``to_latex`` makes a part of them."""
    return _PRIMED.sub("x", text)


def to_latex(text: str) -> str:
    """Cleaned text as LaTeX that algebra overlooks nothing of.

    A prime is a part of a symbol, a transpose is a power, and a text of several letters a symbol. A decimal
    is a fraction, as algebra rounds ``2^{0.5}`` as soon as it reads it. The degrees of a sine are radians.
    """
    if TRIGONOMETRY.search(text):
        text = _ANGLE.sub(r"(\\frac{\1\\pi}{180})", text)
    text = _DECIMAL.sub(lambda found: rf"(\frac{{{found[1]}{found[2]}}}{{1{'0' * len(found[2])}}})", text)
    text = _TRANSPOSED.sub("^{T_{0}}", _PRIMED.sub(_primed, _I.sub(" i", _LONE.sub(r" \1 ", text))))
    return _LONG.sub(lambda found: found[0].lower(), text).translate(_BACK)


def _primed(found: re.Match[str]) -> str:
    letter, *subscripts, primes, one, other = found.groups()
    below = "".join(filter(None, [*subscripts, one, other]))
    return f"{letter}_{{{below}prime{len(primes)}}}"


def _fonts(text: str) -> str:
    r"""Text commands become ``⟦...⟧``; fonts and boxes vanish, their content stays."""
    parts: list[str] = []
    closers: list[str] = []
    inside = False  # a text command
    at = 0
    for brace in _BRACE.finditer(text):
        parts.append(text[at : brace.start()])
        at = brace.end()
        name = brace[1]
        if name in _TEXT:
            parts.append("" if inside else OPEN)
            closers.append("" if inside else CLOSE)
            inside = True
        elif name in _FONTS:
            closers.append("")
        elif name or brace[0] == "{":
            parts.append(brace[0])
            closers.append("}")
        elif brace[0] == "}" and closers:
            closer = closers.pop()
            inside = inside and closer != CLOSE
            parts.append(closer)
        else:
            parts.append(brace[0])
    return "".join([*parts, text[at:]])
