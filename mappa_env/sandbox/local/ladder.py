"""``full``, else ``landlock``, else nothing: each rung is tried for real before code is trusted to it."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass

from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.sandbox.local.start import Template

LEVELS = ("full", "landlock")


@dataclass(frozen=True, slots=True)
class Rung:
    """The level that was reached, and why not a higher one (empty at ``full``)."""

    template: Template
    reason: str = ""

    @property
    def level(self) -> str:
        return self.template.level


def climb(python: str, level: str | None) -> Rung:
    """Start a template at the best level there is, or at ``level`` and no other.

    Falling short of ``full`` unasked is a SandboxWarning, once. Raises SandboxError where no level works.
    """
    reasons: list[str] = []
    for each in (level,) if level else LEVELS:
        try:
            rung = Rung(Template(python, each), "; ".join(reasons))
        except SandboxError as error:
            reasons.append(str(error))
            continue
        if reasons:
            _warn(rung.reason)
        return rung
    raise SandboxError(
        f"sandbox='local' cannot isolate code here: {'; '.join(reasons)}. {remedy()} "
        "Without any isolation: sandbox='process', by name."
    )


def remedy() -> str:
    """What would most likely make ``full`` possible on this machine."""
    if _reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts namespaces of users (Ubuntu 23.10 and later): allow them with "
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or with a profile for this "
            "interpreter that has the rule `userns,`."
        )
    if _reads("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "Allow namespaces of users: `sudo sysctl -w kernel.unprivileged_userns_clone=1`."
    if _reads("/proc/sys/user/max_user_namespaces") == "0":
        return "Allow namespaces of users: `sudo sysctl -w user.max_user_namespaces=15000`."
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return (
            "In a container, namespaces need `--security-opt seccomp=unconfined --security-opt "
            "systempaths=unconfined`, or run the host process outside of the container."
        )
    return "It needs Linux 5.13 or later with namespaces of users, mounts and processes, and Landlock."


def _reads(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


@functools.cache
def _warn(reason: str) -> None:
    warnings.warn(
        f"sandbox='local' runs at isolation='landlock', not 'full': {reason}. {remedy()} "
        "docs/security.md says what the difference is.",
        SandboxWarning,
        stacklevel=2,
    )
