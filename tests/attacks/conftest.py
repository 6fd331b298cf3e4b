"""The sandboxes of this test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attacks.levels import Sandboxes


@pytest.fixture(scope="session")
def sandboxes() -> Iterator[Sandboxes]:
    made = Sandboxes()
    yield made
    made.close()
