"""The warm sandbox: a confined fork server. ``sandbox`` is the entry; ``inside`` is what runs in there."""

from mappa_env.sandbox.local.sandbox import LocalSandbox

__all__ = ["LocalSandbox"]
