"""The viewer's server on a thread, for a trace in a test's folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from mappa_env.viewer.collection import Collection
from mappa_env.viewer.server import ViewerServer


@contextlib.contextmanager
def served(path: Path) -> Iterator[ViewerServer]:
    with ViewerServer(Collection(path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
