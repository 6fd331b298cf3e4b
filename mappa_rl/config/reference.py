"""The reference page of all config keys: ``python -m mappa_rl.config.reference > docs/reference.md``."""

from __future__ import annotations

import sys
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mappa_rl.config.base import AUTO
from mappa_rl.config.overrides import write_yaml
from mappa_rl.config.schema import Config

HEAD = """# Config reference

Every key of a recipe or of a run's `config.yaml`, generated from the schema by
`python -m mappa_rl.config.reference > docs/reference.md`. On the command line a key is
`section.key=value`, and its value is YAML. `mappa-rl recipes --keys` prints the same list.
"""
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def reference() -> str:
    """The page as Markdown: a table per section with type, default, range and meaning of every key."""
    pages = [HEAD]
    for name, field in Config.model_fields.items():
        section: Any = field.annotation
        rows = [_row(f"{name}.{key}", each) for key, each in section.model_fields.items()]
        doc = " ".join((section.__doc__ or "").replace("``", "`").split())
        table = ["| key | type | default | range | meaning |", "|---|---|---|---|---|", *rows]
        pages.append("\n".join([f"## {name}", "", doc, "", *table, ""]))
    return "\n".join(pages)


def _row(key: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").replace("``", "`").split())
    default = write_yaml({"": field.default}).partition(":")[2].strip()
    if "\n" in default:
        default = str(field.default)
    taken = _type(field.annotation) + (f", `{AUTO}`" if AUTO in field.metadata else "")
    cells = (f"`{key}`", taken, f"`{default}`", _range(field), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _range(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, sign in _BOUNDS.items()
        if getattr(rule, name, None) is not None
    ]
    return ", ".join(bounds)


def _type(annotation: Any) -> str:
    """A type in YAML's words, as in ``list of number``."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in args)
    if hasattr(annotation, "__metadata__"):
        return _type(args[0])
    if origin is list:
        return f"list of {_type(args[0])}"
    if origin is tuple:
        return f"list of {len(args)} numbers"
    if origin is dict:
        return f"mapping to {_type(args[1])}"
    if args:
        return " or ".join(_type(part) for part in args)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping with " + ", ".join(f"`{key}`" for key in annotation.model_fields)
    plain = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "true or false",
        type(None): "null",
        Any: "any",
    }
    return plain[annotation]


if __name__ == "__main__":
    sys.stdout.write(reference())
