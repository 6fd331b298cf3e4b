"""Where this project lies on the host: its packages, their history, and the user's added data."""

from __future__ import annotations

import os
from importlib.util import find_spec

from mappa_env.places import data_root
from mappa_env.sandbox.local.inside.installation import PROJECT


def own_paths() -> list[str]:
    """Paths that no sandbox may show, since hidden answers are stored there or can be computed from them."""
    specs = [spec for name in PROJECT if (spec := find_spec(name)) is not None]
    packages = [folder for spec in specs for folder in spec.submodule_search_locations or ()]
    history = [os.path.join(os.path.dirname(folder), ".git") for folder in packages]
    return sorted({*packages, *history, str(data_root())})
