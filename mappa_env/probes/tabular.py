"""The probe of tabular teams: X_train, y_train, X_test and model. The card's README lists its facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mappa_env.grading.metrics import METRICS
from mappa_env.probes.base import Site
from mappa_env.probes.csv_table import CsvTable, read_csv, targets_in
from mappa_env.probes.exports import UnavailableError
from mappa_env.probes.facts import facts_of, name_targets
from mappa_env.probes.labels import LABELS, codings, labels_of
from mappa_env.probes.one_hot import one_hot_of
from mappa_env.probes.opening import HEAD_ROWS, Opener
from mappa_env.probes.scalings import scalings, shift_notes
from mappa_env.probes.unlike import unlike

ATTESTED = {
    "host": "exists, unknown, stable, unlike, allowed, and every count and comparison of exported values",
    "sandbox": "what tables yield when they are read as data: values, names, types, errors",
    "model": "loads, type, has_predict, error and its predictions: its author's code says so",
}


class TabularProbe:
    """Exported arrays in, facts out."""

    def __init__(self) -> None:
        self._opener = Opener()
        self._task: tuple[str, CsvTable, CsvTable] | None = None

    def look(self, site: Site) -> Mapping[str, Any]:
        """See ``Probe.look``; the files are those of ``opening``."""
        if self._task is None or self._task[0] != site.task.id:
            test = read_csv(site.task.files.get("test.csv"), HEAD_ROWS)
            self._task = (site.task.id, read_csv(site.task.files.get("train.csv"), HEAD_ROWS, test), test)
        try:
            opened = self._opener.open(site, self._task[2].rows)
        except UnavailableError:
            return {"probe_failed": "unavailable"}
        train, test = self._task[1:]
        metric = METRICS.get(site.task.metric)
        labels = metric is not None and metric.takes in ("label", "ranking")
        ranked = metric is not None and metric.takes == "ranking"
        targets = targets_in(train, test)
        facts = facts_of(opened, train, test, labels=labels, ranked=ranked)
        record = opened.files[LABELS].record
        y = None if record is None else record.table
        if y is not None and facts["checks"].get("labels_scaled"):
            facts["checks"]["scalings"] = scalings(site.workspace, y, targets, train)
        coded = facts["checks"].get("one_hot") == "coded"
        if labels or coded:
            known = frozenset(targets) if coded else labels_of(train, targets)
            found = codings(site.workspace, y, known, train.rows)
            if y is not None and coded and found.sure:  # else nobody can know what its codes stand for
                one_hot = one_hot_of(y, targets, train)
                if one_hot is not None:
                    name_targets(one_hot, facts)
            shifted = shift_notes(site.workspace, {} if coded else facts["checks"].get("codes", {}))
            facts["checks"] |= {
                "codings": found.sure,
                "codings_unclear": sorted({*found.unclear, *shifted} - {*found.sure}),
            }
        facts["checks"]["unlike"] = unlike(site.workspace)
        return {**facts, "attested_by": ATTESTED}
