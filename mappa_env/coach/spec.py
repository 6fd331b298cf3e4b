"""Strict reader of the YAML files in which a card says how to judge."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mappa_env.errors import CardError
from mappa_env.json_and_yaml import read_yaml


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Spec = TypeVar("Spec", bound=Strict)


def read_spec_file(path: Path, kind: type[Spec]) -> Spec:
    """Read the YAML file ``path`` as ``kind``. Raises CardError that names the file and the key."""
    try:
        return kind.model_validate(read_yaml(path.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise CardError(f"{path}: {place}: {first['msg']} (found {first['input']!r}).") from None
    except ValueError as error:
        raise CardError(f"{path} is not valid YAML: {error}") from None
