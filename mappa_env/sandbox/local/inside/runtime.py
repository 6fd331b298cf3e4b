"""The host's files that an action may read: the interpreter, its packages and the system's libraries."""

from __future__ import annotations

import os
import site
import sys

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
ETC = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/ssl/openssl.cnf")
DEVICES = ("null", "full", "random", "urandom")
"""Excludes zero: a shared mapping of it is memory that no process's RSS need include."""
_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
"""Parts of an interpreter's prefix; the rest of that folder may be a home or a project."""


def folders() -> list[str]:
    """Files and folders of this interpreter outside ``SYSTEM``, outermost first."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    found = {os.path.join(prefix, part) for prefix in prefixes for part in _PARTS}
    found |= {os.path.dirname(os.path.realpath(sys.executable)), *site.getsitepackages()}
    found |= {path for path in sys.path if path.endswith("-packages")}
    kept: list[str] = []
    for path in sorted(map(os.path.abspath, found)):
        within = any(path == outer or path.startswith(outer + "/") for outer in (*SYSTEM, *kept))
        if os.path.exists(path) and not within:
            kept.append(path)
    return kept
