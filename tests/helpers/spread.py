"""Which worker of pytest-xdist runs what: whole files, and on one of them all that start Ray."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

from ray_files import starts_ray


class FilesAndRay(LoadFileScheduling):
    """A file at a time to each worker, but the files that start Ray to one: two workers would take turns."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "ray" if starts_ray(self.config.rootpath / file) else file
