"""Finds the best isolation level, ``full`` or ``landlock``, by running a trial action at each."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass

from mappa_env.errors import SandboxError, SandboxTimeout, SandboxWarning
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local.exchange import Exchange, Lost, Unborn
from mappa_env.sandbox.local.link import Link
from mappa_env.sandbox.local.start import Template
from mappa_env.workspace.storage import FolderStorage

LEVELS = ("full", "landlock")
_TRIAL_S = 60.0
"""Seconds that the trial action may take."""


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    """The level in use, and the reason why it is not a higher one (empty at ``full``)."""

    template: Template
    reason: str = ""

    @property
    def name(self) -> str:
        """``full`` or ``landlock``."""
        return self.template.level


def start_best(python: str, level: str | None) -> IsolationLevel:
    """Start a template at ``level``, or at the best level that works if it is None.

    Only a step that failed rules a level out. Warns once with SandboxWarning if the level is below ``full``.
    Raises SandboxError if no level works, and SandboxTimeout if a level was too slow to tell.
    """
    reasons: list[str] = []
    for each in (level,) if level else LEVELS:
        try:
            template = Template(python, each)
            try:
                _try(template)
            except BaseException:
                template.close()
                raise
            reached = IsolationLevel(template, "; ".join(reasons))
        except SandboxTimeout:
            raise
        except (SandboxError, OSError) as error:
            reasons.append(str(error))
            continue
        if reasons:
            _warn(reached.reason)
        return reached
    raise SandboxError(
        f"sandbox='local' cannot isolate code here: {'; '.join(reasons)}. {remedy()} "
        "sandbox='process' works here, but does not isolate: use it only for code that you trust."
    )


def _try(template: Template) -> None:
    """Run one trial action. Raises SandboxError with its output, or with the step that failed."""
    answer, (fd,) = template.ask(do="zygote")
    link = Link(answer["pid"], fd)
    storage = FolderStorage(template.user)
    storage.ready()
    folder, scratch = str(storage.path), str(storage.scratch)
    if template.level == "full":
        folder = str(storage.path.relative_to(template.folder))
    numbers = {"wall": _TRIAL_S, "cpu": 60, "memory": 2**31, "disk": 2**20, "processes": 64, "running": 0}
    request = {"folder": folder, "scratch": scratch, "limits": numbers, "seed": 0, "environment": {}}
    exchange = Exchange(Limits(wall_s=_TRIAL_S), lambda: None, 1.0)
    try:
        report = exchange.run(link, request, "print(6 * 7)", None, lambda: None)
    except SandboxError as error:
        raise SandboxError(f"{template.level}: {error}") from None
    except Lost as lost:
        if lost.silent:
            raise SandboxTimeout(_slow(template.level)) from None
        raise SandboxError(f"{template.level}: the trial action killed its zygote") from None
    except Unborn:
        raise SandboxError(f"{template.level}: the trial action killed its zygote") from None
    finally:
        link.close()
        storage.remove()
    if report["exceeded"] == "timeout":
        raise SandboxTimeout(_slow(template.level))
    if exchange.out.text() != "42\n":
        raise SandboxError(f"{template.level}: {exchange.err.text().strip()[-300:]}")


def _slow(level: str) -> str:
    return (
        f"the sandbox's trial action at level {level!r} did not end within {_TRIAL_S:.0f} s: the machine is "
        "overloaded. Try again, or start with less load."
    )


def remedy() -> str:
    """The most likely remedy that makes ``full`` possible on this machine."""
    if _reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts user namespaces (Ubuntu 23.10 and later): allow them with "
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or with a profile for this "
            "interpreter that has the rule `userns,`."
        )
    if _reads("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "Allow user namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1`."
    if _reads("/proc/sys/user/max_user_namespaces") == "0":
        return "Allow user namespaces: `sudo sysctl -w user.max_user_namespaces=15000`."
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return (
            "In a container, namespaces need `--security-opt seccomp=unconfined --security-opt "
            "systempaths=unconfined`, or run the host process outside of the container."
        )
    return "It needs Linux 5.13 or later with user, mount and pid namespaces, and Landlock."


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
        "docs/security.md explains the difference.",
        SandboxWarning,
        stacklevel=2,
    )
