"""What programs import from here since the first version of traces; ``mappa_env.trace`` has all."""

from mappa_env.trace.store import TraceStore
from mappa_env.trace.traces import read

__all__ = ["TraceStore", "read"]
