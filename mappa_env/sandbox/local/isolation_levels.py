"""``full``, else ``landlock``, else nothing: each rung is tried for real before code is trusted to it."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass

from mappa_env.errors import SandboxError, SandboxWarning
from mappa_env.homes import FolderHome
from mappa_env.sandbox.base import Limits
from mappa_env.sandbox.local.exchange import Exchange, Lost, Unborn
from mappa_env.sandbox.local.link import Link
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
            template = Template(python, each)
            try:
                _try(template)
            except BaseException:
                template.close()
                raise
            rung = Rung(template, "; ".join(reasons))
        except (SandboxError, OSError) as error:
            reasons.append(str(error))
            continue
        if reasons:
            _warn(rung.reason)
        return rung
    raise SandboxError(
        f"sandbox='local' cannot isolate code here: {'; '.join(reasons)}. {remedy()} "
        "Without any isolation: sandbox='process', by name."
    )


def _try(template: Template) -> None:
    """Run one action. Raises SandboxError with what it said, or with the step that failed."""
    answer, (fd,) = template.ask(do="zygote")
    link = Link(answer["pid"], fd)
    home = FolderHome(template.user)
    home.ready()
    folder, scratch = str(home.path), str(home.scratch)
    if template.level == "full":
        folder = str(home.path.relative_to(template.folder))
    numbers = {"wall": 60, "cpu": 60, "memory": 2**31, "disk": 2**20, "processes": 64, "running": 0}
    request = {"folder": folder, "scratch": scratch, "limits": numbers, "seed": 0, "environment": {}}
    exchange = Exchange(Limits(wall_s=60), lambda: None, 1.0)
    try:
        report = exchange.run(link, request, "print(6 * 7)", None, lambda: None)
    except (Lost, Unborn):
        raise SandboxError(f"{template.level}: the trial action brought its zygote down") from None
    finally:
        link.close()
        home.remove()
    if report["failed"] or exchange.out.text() != "42\n":
        raise SandboxError(f"{template.level}: {report['failed'] or exchange.err.text().strip()[-300:]}")


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
