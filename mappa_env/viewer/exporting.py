"""The viewer as one file that opens without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mappa_env.errors import DataError
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.page import single_page

MOST_BYTES = 256 * 1024**2
"""A larger page takes a browser too long to open."""


def export(collection: Collection, path: Path) -> int:
    """Write every episode of ``collection`` into the page ``path``; returns its size in bytes.

    Raises DataError if it would be larger than ``MOST_BYTES``, and then leaves no file, or if it cannot be
    written.
    """
    draft, size = path.with_name(f"{path.name}.part"), 0
    try:
        with draft.open("w", encoding="utf-8") as file:
            for part in single_page(collection.title, _blocks(collection)):
                size += file.write(part)
                if size > MOST_BYTES:
                    raise DataError(
                        f"{collection.path} has too many episodes for one page: it would be larger than "
                        f"{MOST_BYTES // 1024**2} MiB. Export a single trace file of it."
                    )
        draft.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
    return size


def _blocks(collection: Collection) -> Iterator[tuple[str, str]]:
    yield "about", collection.about()
    yield "episodes", collection.changes(0)
    yield "metrics", collection.metrics()
    for number in range(len(collection)):
        yield f"episode-{number}", collection.episode(number)
