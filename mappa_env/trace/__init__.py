"""Recorded episodes in files. ``TraceStore`` writes them; ``Traces`` reads a run, a folder or a file."""

from mappa_env.trace.file import TraceFile
from mappa_env.trace.recorded import ActionSummary, Learned, Recorded, Summary
from mappa_env.trace.store import TraceStore
from mappa_env.trace.traces import Traces, read, trace_files

__all__ = [
    "ActionSummary",
    "Learned",
    "Recorded",
    "Summary",
    "TraceFile",
    "TraceStore",
    "Traces",
    "read",
    "trace_files",
]
