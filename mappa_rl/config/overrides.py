"""From YAML text and ``a.b=c`` overrides to a validated pydantic model, with errors that name the remedy."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from mappa_rl.config.foreign import translated
from mappa_rl.config.renamed import renamed
from mappa_rl.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


MAIN = ("rollout", "algo", "optim", "run")
"""Sections that a key without its section most likely belongs to."""

_RULES = (
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), "tf"),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$|^\.nan$"),
        "-+0123456789.",
    ),
)
_REPLACED = (":bool", ":float", ":int", ":timestamp")


class _Loader(yaml.SafeLoader):
    """YAML 1.2 scalars: only true and false are booleans (``off`` is a word), and ``1e-4`` is a number."""


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would read as something else."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in rules if not tag.endswith(_REPLACED)]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _regexp, _first in _RULES:
    _Loader.add_implicit_resolver(_tag, _regexp, list(_first))
    _Dumper.add_implicit_resolver(_tag, _regexp, list(_first))
_Dumper.add_representer(
    str,  # plain text would lose characters that YAML takes for line breaks
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if re.search("[\x85\u2028\u2029]", text) else None
    ),
)


def _mapping(loader: yaml.Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    """A mapping whose keys differ: of two equal ones YAML would drop the first without a word."""
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise ValueError(f"the key {key!r} is no text{key_node.start_mark}")
        if key in found:
            raise ValueError(f"the key {key!r} is there twice{key_node.start_mark}")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))  # no octals


def write_yaml(data: Any) -> str:
    """YAML text that ``read_yaml`` reads back to the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def read_yaml(text: str, where: str) -> Any:
    """Parse YAML text. Raises ConfigError that names ``where``."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, AttributeError) as error:  # also of values with a wrong tag
        raise ConfigError(f"{where} is not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{where} is nested too deeply.") from None


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """(dotted name, default, meaning) of every leaf key of ``model``."""
    for name, field in model.model_fields.items():
        if _is_section(field.annotation):
            yield from keys(field.annotation, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            yield f"{prefix}{name}", field.default, field.description or ""


def apply_overrides(
    model: type[BaseModel], data: Mapping[str, Any], overrides: Sequence[str], aliases: Mapping[str, str]
) -> dict[str, Any]:
    """``data`` with ``a.b=value`` laid over it (values are YAML). Raises ConfigError for an unknown key."""
    result: dict[str, Any] = copy.deepcopy(dict(data))
    for text in overrides:
        key, equals, value = text.partition("=")
        key = aliases.get(key.strip(), key.strip())
        if not equals or not key:
            raise ConfigError(f"override {text!r} must look like section.key=value, as in algo.kl_coef=0.02.")
        if old := renamed([key]):
            raise ConfigError(f"override {text!r}: {old}")
        _check_key(model, key)
        node = result
        *parents, last = key.split(".")
        for part in parents:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        node[last] = read_yaml(value, f"the value of {key}")
    return result


def validate(model: type[M], data: Any, where: str) -> M:
    """``data`` as a ``model``. Raises ConfigError naming every unknown key and every bad value.

    If keys were renamed, that is the whole message: one sentence with their new names.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} must hold sections of keys, found {data!r}.")
    if old := renamed(_leaves(data)):
        raise ConfigError(f"{where}: {old}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for entry in error.errors():
            what, why = _explain(model, entry)
            found.setdefault(what, []).extend([why] if why else [])
        lines = [
            f"{where}: {what}" + (f": {'; or '.join(why)}." if why else "") for what, why in found.items()
        ]
        raise ConfigError("\n".join(lines)) from None


def _leaves(data: Mapping[str, Any]) -> list[str]:
    """The dotted names ``section.key`` of ``data``."""
    return [
        f"{section}.{key}" for section, found in data.items() if isinstance(found, Mapping) for key in found
    ]


def _check_key(model: type[BaseModel], key: str) -> None:
    """Refuse keys outside the schema; below a free-form mapping (``env.task_options``) all are allowed."""
    current: Any = model
    for part in key.split("."):
        if not _is_section(current):
            if dict in _origins(current):
                return
            raise ConfigError(unknown_key(model, key))
        if part not in current.model_fields:
            raise ConfigError(unknown_key(model, key))
        current = current.model_fields[part].annotation
    if _is_section(current):
        inner = ", ".join(name for name, _, _ in keys(current, f"{key}."))
        raise ConfigError(f"{key!r} is a section, not a key; its keys are {inner}.")


def unknown_key(model: type[BaseModel], key: str) -> str:
    """The message for a key that is not in the schema, with the dotted name that was probably meant."""
    if elsewhere := translated(key):
        return f"unknown key {key!r}. Did you mean {elsewhere!r}?"
    names = [name for name, _, _ in keys(model)]
    leaf = key.rsplit(".", 1)[-1]
    same_leaf = [name for name in names if name.rsplit(".", 1)[-1] == leaf]
    same_leaf.sort(key=lambda name: name.split(".")[0] not in MAIN)
    by_leaf = difflib.get_close_matches(leaf, {n.rsplit(".", 1)[-1] for n in names}, n=1, cutoff=0.7)
    near = (
        difflib.get_close_matches(key, names, n=1, cutoff=0.9)
        or same_leaf
        or difflib.get_close_matches(key, names, n=1, cutoff=0.6)
        or [name for name in names if by_leaf and name.rsplit(".", 1)[-1] == by_leaf[0]]
        or difflib.get_close_matches(key, names, n=1, cutoff=0.4)
    )
    remedy = f"Did you mean {near[0]!r}?" if near else f"The sections are {', '.join(model.model_fields)}."
    return f"unknown key {key!r}. {remedy}"


def _explain(model: type[BaseModel], entry: Any) -> tuple[str, str]:
    """The parts of a message: the key with its value, and what is wrong with it.

    The first part is equal for all branches of a union.
    """
    key, current, inside = "", model, False
    for part in entry["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif _is_section(current):
            key += f".{part}" if key else part
            field = current.model_fields.get(part)
            current = field.annotation if field is not None else None  # type: ignore[assignment]
            inside = current is not None and not _is_section(current)
        elif get_origin(current) is dict:  # a free key, of a section perhaps
            key, current = f"{key}.{part}", get_args(current)[1]
            inside = not _is_section(current)
        # any other part names the branch of a union
    if entry["type"] == "extra_forbidden" and not inside:
        return _unknown(model, key), ""
    message = entry["msg"].removeprefix("Value error, ")
    if not inside:  # a rule over several keys: its message names them
        return message, ""
    if entry["type"] == "missing":
        return f"{key} is missing", ""
    message = message.replace("Input should be", "it must be")
    return f"{key}={entry['input']!r} is not allowed", message[:1].lower() + message[1:]


def _unknown(model: type[BaseModel], key: str) -> str:
    """``unknown_key``, or below a free key what its section has."""
    current: Any = model
    for part in key.split("."):
        if get_origin(current) is dict:
            current = get_args(current)[1]
        elif part in current.model_fields:
            current = current.model_fields[part].annotation
        elif current is not model and key.count(".") > 1:
            return f"unknown key {key!r}. Its section has {', '.join(current.model_fields)}."
    return unknown_key(model, key)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _origins(annotation: Any) -> set[Any]:
    """``dict`` and friends, also from inside a union."""
    origin = get_origin(annotation) or annotation
    return (
        {origin}.union(*(_origins(arg) for arg in get_args(annotation))) if get_args(annotation) else {origin}
    )
