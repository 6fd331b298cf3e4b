"""Which worker of pytest-xdist runs what: whole files, and on one of them all that start Ray."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling


@cache
def starts_ray(file: Path) -> bool:
    """Whether the tests of ``file`` start nodes of Ray; one test at a time may (``ray_cluster.alone``)."""
    text = file.read_text(encoding="utf-8")
    return "\nfrom ray_cluster import" in text or "\nfrom runs_on_ray import" in text


class FilesAndRay(LoadFileScheduling):
    """A file at a time to each worker, but the files that start Ray to one: others would wait for it."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "ray" if starts_ray(self.config.rootpath / file) else file
