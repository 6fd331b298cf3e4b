"""Which column of y_train holds which target of the task."""

from __future__ import annotations

from collections.abc import Sequence

from mappa_env.probes.plain import Table

MOST_TARGETS = 40
"""With more targets, nobody compares their columns, and no model of the host is fitted to them."""


def places_of(y: Table, targets: Sequence[str]) -> tuple[int, ...]:
    """The place of each target in y_train: by name, and of columns with other names by their order.

    Empty: y_train has not as many columns as there are targets, or there are too many.
    """
    if not 0 < len(targets) <= MOST_TARGETS or not len(targets) == y.cols == len(y.names):
        return ()
    named = {name: at for at, name in enumerate(y.names) if name in targets}
    others = iter([at for at in range(y.cols) if at not in named.values()])
    return tuple(named[name] if name in named else next(others) for name in targets)
