"""A workspace that is removed after its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mappa_env.workspace.workspace import Workspace


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with Workspace() as made:
        yield made
