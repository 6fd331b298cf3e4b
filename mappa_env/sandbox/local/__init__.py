"""The default sandbox: a confined fork server. ``sandbox`` is the entry point; ``inside`` runs confined."""

from mappa_env.sandbox.local.sandbox import LocalSandbox

__all__ = ["LocalSandbox"]
