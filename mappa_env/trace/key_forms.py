"""The forms of providers' keys, as far as their documents or their keys show them."""

from __future__ import annotations

import re

_START = r"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m))"
"""Where a key may begin: not within a word, but after the codes of a terminal's colour."""
_ALONE = r"(?:(?<![\w-])|(?<=[0-9;\[]m))"
_DIGIT = r"(?=[\w-]{0,64}[0-9])"
"""Ahead of a long run: names of classes and titles have none, random keys of this length nearly always do."""

_SHORT = (
    ("eyJ", _ALONE + r"eyJ[\w-]{8,2000}\.eyJ[\w-]{8,8000}\.[\w-]{8,2000}"),  # bounds: else quadratic
    ("xox", r"xox[abeoprs]-" + _DIGIT + r"[\w-]{10,}"),
    ("SG.", _START + r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("earer ", r"(?i:(?<=bearer ))(?=[\w.~+/-]{0,64}[0-9])[\w.~+/-]{20,}=*"),
    ("EARER ", r"(?<=BEARER )(?=[\w.~+/-]{0,64}[0-9])[\w.~+/-]{20,}=*"),
    (
        "PRIVATE KEY",  # what the end of an output cut off has no END
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?=[\s>|]*(?:[A-Za-z0-9+/=]{16}|[A-Z][a-z-]+:))"
        r"[\w+/=\s>|:,.-]*",
    ),
)
_LONG = (
    ("sk-", _START + r"c?sk-(?:[A-Za-z0-9]{40,}|(?=[A-Za-z0-9]{0,64}[0-9])[A-Za-z0-9]{20,})"),
    ("sk-", _START + r"sk-(?:ant-[a-z]+[0-9]{2}|or-v[0-9]|lf|ws)-[\w.-]{16,}"),
    ("sk-", _START + r"sk-(?:proj|svcacct|service|admin|None|kimi|api)-" + _DIGIT + r"[\w-]{20,}"),
    ("sk_", _START + r"[a-z]{0,2}sk_(?:live_|test_)?(?:[A-Za-z0-9_]{32,}|" + _DIGIT + r"[A-Za-z0-9]{20,})"),
    ("rk_live_", _START + r"rk_live_[A-Za-z0-9]{20,}"),
    ("xai-", _START + r"xai-[A-Za-z0-9]{20,}"),
    ("xapp-", _START + r"xapp-[0-9]-[A-Za-z0-9]{1,40}-[\w-]{20,}"),
    ("nvapi-", _START + r"nvapi-[\w-]{20,}"),
    ("pplx-", _START + r"pplx-[A-Za-z0-9]{20,}"),
    ("tvly-", _START + r"tvly-[\w-]{20,}"),
    ("fw_", _START + r"(?<!_)fw_" + _DIGIT + r"[A-Za-z0-9]{20,}"),
    ("r8_", _START + r"(?<!_)r8_[A-Za-z0-9]{30,}"),
    ("tgp_v1_", _START + r"tgp_v1_[\w-]{20,}"),
    ("wandb_v1_", _START + r"wandb_v1_\w{30,}"),
    ("lsv2_", _START + r"lsv2_(?:pt|sk)_\w{30,}"),
    ("jina_", _START + r"(?<!_)jina_" + _DIGIT + r"\w{30,}"),
    ("rpa_", _START + r"(?<!_)rpa_" + _DIGIT + r"[A-Za-z0-9]{30,}"),
    ("vck_", _START + r"(?<!_)vck_" + _DIGIT + r"\w{30,}"),
    ("whsec_", _START + r"whsec_" + _DIGIT + r"[A-Za-z0-9+/]{24,}"),
    ("dckr_pat_", r"dckr_pat_[\w-]{20,}"),
    ("dop_v1_", r"dop_v1_[0-9a-f]{40,}"),
    ("sbp_", r"sbp_[0-9a-f]{40}"),
    ("api_org_", r"api_org_[A-Za-z0-9]{30,}"),
    ("npm_", _START + r"(?<!_)npm_[A-Za-z0-9]{36}"),
    ("pypi-", _START + r"pypi-AgE[\w-]{50,}"),
    ("dapi", _START + r"dapi[0-9a-f]{32}"),
    ("AIza", r"AIza[\w-]{35}"),
    ("AQ.", _START + r"AQ\." + _DIGIT + r"[\w-]{40,}"),
    ("GOCSPX-", _START + r"GOCSPX-[\w-]{20,}"),
    ("ya29.", r"ya29\.[\w-]{20,}"),
    ("hf_", _START + r"hf_[A-Za-z0-9]{30,}"),
    *((f"gh{kind}_", _START + rf"gh{kind}_[A-Za-z0-9]{{36,}}") for kind in "pousr"),
    ("github_pat_", r"github_pat_\w{50,}"),
    ("glpat-", r"glpat-[\w-]{20,}"),
    ("AKIA", r"(?<![A-Z0-9])AKIA[A-Z0-9]{16}(?![A-Z0-9])"),
    ("ASIA", r"(?<![A-Z0-9])ASIA[A-Z0-9]{16}(?![A-Z0-9])"),
)

SHORT = tuple((needle, re.compile(pattern, re.ASCII)) for needle, pattern in _SHORT)
"""(what every such key contains, its pattern): looking for the former first costs almost nothing."""
LONG = tuple((needle, re.compile(pattern, re.ASCII)) for needle, pattern in _LONG)
"""The same for keys with ``RUN`` or more letters, digits, ``_`` or ``-`` in a row, which few texts have."""
RUN = 20
