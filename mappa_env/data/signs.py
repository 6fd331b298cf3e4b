r"""The signs of formulas: which commands of TeX, and which characters, write the same one."""

from __future__ import annotations

import unicodedata

_ROWS = r"""
× \cdot \times \ast · ⋅ ∗ ∙
- − ‐ ‑ ‒ –
<= \leq \le \leqslant ≤ ⩽
>= \geq \ge \geqslant ≥ ⩾
< \lt
> \gt
\equiv ≡
\approx ≈
\sim ∼
\cong ≅
\propto ∝
| \lvert \rvert \vert \mid ∣
\parallel ∥ \lVert \rVert \Vert \| ‖
' \prime ’ ′
% \%
& \&
# \#
_ \_
" \"
; \\
, 、 ，
\{ \lbrace
\} \rbrace
[ \lbrack
] \rbrack
\langle ⟨ 〈
\rangle ⟩ 〉
\lfloor ⌊
\rfloor ⌋
\lceil ⌈
\rceil ⌉
… \ldots \dots \cdots \dotsc \dotsb \dotsm ... ⋯
\vdots ⋮
\frac \dfrac \tfrac \cfrac \sfrac \nicefrac
\binom \dbinom \tbinom
\bar \overline
\hat \widehat
\tilde \widetilde
\vec \overrightarrow
\sqrt √
\pm ±
\mp ∓
\infty ∞
\angle ∠
\measuredangle ∡
\triangle \Delta \bigtriangleup \vartriangle △ ∆
\square □ \Box
\diamond ◇ \Diamond ⋄
\star ⋆ ★
• \bullet
\circ ∘
\perp ⊥ \bot
\emptyset ∅ \varnothing
\in ∈
\ni ∋
\cup ∪
\cap ∩
\bigcup ⋃
\bigcap ⋂
\setminus ∖ \smallsetminus \backslash
\subset ⊂
\supset ⊃
\subseteq ⊆
\supseteq ⊇
\oplus ⊕
\otimes ⊗
\odot ⊙
\forall ∀
\exists ∃
\neg ¬ \lnot
\wedge ∧ \land
\vee ∨ \lor
\to → \rightarrow \longrightarrow
\gets ← \leftarrow \longleftarrow
\leftrightarrow ↔ \longleftrightarrow
\implies ⇒ \Rightarrow \Longrightarrow
\iff ⇔ \Leftrightarrow \Longleftrightarrow
\mapsto ↦ \longmapsto
\therefore ∴
\because ∵
\sum ∑
\prod ∏
\int ∫
\partial ∂
\nabla ∇
: \colon
l \ell
mod \mod \bmod
\epsilon \varepsilon
\theta \vartheta
\phi \varphi
\rho \varrho
\sigma \varsigma
\pi \varpi
\kappa \varkappa
"""
SAME = {other: first for first, *others in map(str.split, _ROWS.strip().splitlines()) for other in others}
"""A token -> the one that stands for it."""

_SMALL = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi
omega
"""
_CAPITAL = "gamma delta theta lambda xi pi sigma upsilon phi psi omega"


def _greek(size: str, name: str) -> str:
    return unicodedata.lookup(f"GREEK {size} LETTER {'lamda' if name == 'lambda' else name}")


GREEK = {
    "ς": r"\sigma",
    **{_greek("SMALL", name): rf"\{name}" for name in _SMALL.split()},
    **{_greek("CAPITAL", name): rf"\{name.capitalize()}" for name in _CAPITAL.split()},
}
"""A Greek letter -> its command."""
ACCENTS = {
    "\u0302": r"\hat",
    "\u0303": r"\tilde",
    "\u0304": r"\bar",
    "\u0305": r"\bar",
    "\u0307": r"\dot",
    "\u0308": r"\ddot",
    "\u20d7": r"\vec",
}
"""A mark that follows its letter -> its command."""
