r"""One spelling of what TeX can write in several ways: ordinals, primes, degrees, quotes, accents."""

from __future__ import annotations

import re

_ROMAN = r"\\(?:text(?:rm|normal|up|it)?|math(?:rm|it|normal|sf|bf)|operatorname|mbox|rm|it)"
_END = "(?:st|nd|rd|th)"
_LATER = [
    (re.compile(r"\\textsuperscript(?![A-Za-z])"), "^"),
    (re.compile(r"\\textsubscript(?![A-Za-z])"), "_"),
    (  # n^{\text{th}}, n^{\rm th}, n^\text{th}
        re.compile(rf"\^ ?(?:\{{ ?{_ROMAN} ?\{{? ?({_END}) ?\}}? ?\}}|{_ROMAN} ?\{{ ?({_END}) ?\}})"),
        r"\1\2",
    ),
    (  # n^{th}, 1^{st}; not a^{th}, nor 3^{st}
        re.compile(
            r"(?:(1\$?)\^ ?\{ ?(st)|(2\$?)\^ ?\{ ?(nd)|(3\$?)\^ ?\{ ?(rd)|([\dnkmij)]\$?)\^ ?\{ ?(th)) ?\}"
        ),
        r"\1\2\3\4\5\6\7\8",
    ),
    (re.compile(r"\$([^${}]{1,80})\\choose(?![A-Za-z])([^${}]{1,80})\$"), r"${\1\\choose\2}$"),
    (re.compile(r"\\degree(?![A-Za-z])|(?<=\d)\$?[ -]degrees?(?![A-Za-z])"), r"^\\circ "),
    (re.compile(r"(?<=\d)\^(?:o(?![A-Za-z])|\{o\})"), r"^\\circ "),
    (re.compile(r"\. ?\. ?\."), "..."),
    (re.compile(r"(?<= )!=|=/=|\\neq?(?![A-Za-z])"), r"\\not="),
    (re.compile(r"\\notin(?![A-Za-z])"), r"\\not\\in "),
    (re.compile(r"\\nmid(?![A-Za-z])"), r"\\not|"),
    (re.compile(r"->"), "→"),
    (re.compile(r"\\div(?![A-Za-z])|[÷\u2044\u2215]"), "/"),
    (re.compile(r"(\\\\) ?\*? ?\[-?[\d.]{1,8} ?[a-z]{2}\]"), r"\1"),
    (  # the marks that align formulas; not those between the cells of a matrix
        re.compile(
            r"(?<!\\)& ?(?=[=<>]|\\(?:leq?|geq?|not|equiv|approx|sim|cong|implies|iff)(?![A-Za-z]))"
            r"|(?<=[=<>]) ?&"
        ),
        "",
    ),
    (  # Poincar\'e, Erd\H{o}s
        re.compile(r"(?<!\\)\\(?:[`'^\"~=.] ?|[Hcvukr] ?(?=\{))(?:\{ ?\\?([A-Za-z]) ?\}|([A-Za-z]))"),
        r"\1\2",
    ),
    (  # a fraction of two numbers; not a part of 1/2x, x^1/2 or 2/3/2020
        re.compile(
            r"(?<![\w.^_/)}\]!])(?<!\^-)(?<!/ )(\d+) ?/ ?(\d+)"
            r"(?![\w^!({\[/]|\.\d|,\d{3}| [/^!]|\\[A-Za-z])"
        ),
        r"\\frac{\1}{\2}",
    ),
]
_PRIMES = re.compile(r"\^ ?(?:\{((?: ?(?:\\prime(?![A-Za-z])|'))+) ?\}|(\\prime)(?![A-Za-z]))")
_QUOTES = re.compile("``|''")


def one_spelling(text: str) -> str:
    """``text`` with single spaces, and each of its forms in one spelling."""
    text = _unquoted(" ".join(text.split()))
    text = _PRIMES.sub(lambda found: "'" * ((found[1] or found[2]).count("p") + found[0].count("'")), text)
    for pattern, written in _LATER:
        text = pattern.sub(written, text)
    return text


def _unquoted(text: str) -> str:
    """Without TeX's quotes; two primes that close none stay."""
    opened = 0

    def quote(found: re.Match[str]) -> str:
        nonlocal opened
        if found[0] != "``" and not opened:
            return found[0]
        opened += 1 if found[0] == "``" else -1
        return " "

    return _QUOTES.sub(quote, text)
