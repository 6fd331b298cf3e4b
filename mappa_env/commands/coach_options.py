"""What the subcommands of ``mappa-env coach`` share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mappa_env.errors import OptionError

COACH_HELP = "rubric, gemini:<model>, openai:<model>@<url>, replay:<path>; with options: '{name: ..., ...}'"


def coach_option(text: str) -> str | Mapping[str, Any]:
    """``coach=`` from a command line: a name, or a mapping in YAML (so JSON too). Raises OptionError."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"--coach {text!r} is no YAML: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise OptionError(f"--coach {text!r} needs a name: '{{name: gemini:<model>, budget: 1}}'.")
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """What could not be computed (NaN) is null."""
    path.write_text(json.dumps(_strict(document), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
