"""Derive the system call filter again: compare what scientific code calls with what the policy allows.

    python tools/derive_syscalls.py [--check] [--python PYTHON]

Runs the corpus under `strace -f` and prints every system call it made with the policy's verdict, then the
allowed calls that it never made. Skips and names actions whose packages PYTHON does not have. With --check,
also runs each action under the real filter, at both levels, and exits 1 if the corpus needs a call that the
policy refuses without a stated reason, or if an action fails under the filter.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from syscall_corpus import CORPUS, Action

LOCAL = Path(__file__).resolve().parent.parent / "mappa_env" / "sandbox" / "local"
sys.path.insert(0, str(LOCAL))  # `inside` alone: the rest of the package would need its dependencies

from inside import syscall_policy as policy  # noqa: E402

DEADLINE_S = 600.0


@dataclass
class Seen:
    """What the corpus called: how often and first where, and the arguments of the calls that are checked."""

    times: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, set[tuple[int, ...]]] = field(default_factory=dict)

    def add(self, action: Action, trace: str) -> None:
        for call, text in re.findall(r"^\d+ +(\w+)\(([^)\n]*)", trace, re.MULTILINE):
            self.times[call] += 1
            self.first.setdefault(call, action.name)
            if call in policy.CHECKED:
                words = [word for word in text.split(", ") if re.fullmatch(r"0(x[0-9a-f]+)?", word)]
                self.arguments.setdefault(call, set()).add(tuple(int(word, 16) for word in words))


def passes(call: str, arguments: tuple[int, ...]) -> bool:
    return all(arguments[check.arg] & check.mask in check.values for check in policy.CHECKED[call])


def verdict(call: str, seen: Seen) -> tuple[str, str]:
    """(verdict at the strictest level, its reason)."""
    if call in policy.CHECKED:
        bad = sorted(args for args in seen.arguments[call] if not passes(call, args))
        shown = "; ".join(",".join(map(hex, args[:3])) for args in bad)
        return ("arguments refused", shown) if bad else ("checked", "")
    if call in policy.MISSING:
        return "ENOSYS", "the C library falls back"
    if call in policy.allowed("landlock"):
        return "allowed", ""
    if call in policy.allowed("full"):
        return "full only", policy.refusal(call, "landlock") or ""
    return "refused", policy.refusal(call, "full") or ""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)


def trace(python: str, action: Action) -> str:
    with tempfile.TemporaryDirectory(prefix="derive-") as name:
        folder = Path(name, "work")
        folder.mkdir()
        log = Path(name, "trace")
        raw = "raw=" + ",".join(policy.CHECKED)
        strace = ["strace", "-f", "-qq", "-s", "0", "-e", "signal=none", "-e", raw, "-o", str(log)]
        done = run([*strace, python, "-c", action.code], folder)
        if done.returncode:
            raise SystemExit(f"{action.name}: failed under strace\n{done.stderr[-2000:]}")
        return log.read_text()


def fails_filtered(python: str, action: Action, level: str) -> str:
    """The end of the action's error output under the filter; empty when it works."""
    start = (
        f"import sys; sys.path.append({str(LOCAL)!r})\nfrom inside import seccomp\n"
        f"seccomp.install(seccomp.build({level!r}))\n"
    )
    with tempfile.TemporaryDirectory(prefix="derive-") as name:
        folder = Path(name, "work")
        folder.mkdir()
        done = run([python, "-c", start + action.code], folder)
        return done.stderr[-1000:] or f"exit {done.returncode}" if done.returncode else ""


def missing_packages(python: str, action: Action) -> list[str]:
    code = "import importlib.util, sys\nprint(*(m for m in sys.argv[1:] if not importlib.util.find_spec(m)))"
    return subprocess.run(
        [python, "-c", code, *action.needs], capture_output=True, text=True, check=True
    ).stdout.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="run under the filter too; exit 1 on a gap")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the corpus (default: this one)"
    )
    options = parser.parse_args()
    if shutil.which("strace") is None:
        print("strace is not installed: install the package 'strace' of your distribution.", file=sys.stderr)
        return 2
    seen, failures = Seen(), []
    for action in CORPUS:
        if missing := missing_packages(options.python, action):
            print(f"left out: {action.name} ({', '.join(missing)} not installed)")
            continue
        seen.add(action, trace(options.python, action))
        for level in action.works_at if options.check else ():
            if error := fails_filtered(options.python, action, level):
                failures.append(f"{action.name} fails under the filter at {level}:\n{error}")
    verdicts = {call: verdict(call, seen) for call in sorted(seen.times)}
    for call, (kind, reason) in verdicts.items():
        print(f"{call:24} {seen.times[call]:8}  {kind:16} {reason or 'first: ' + seen.first[call]}")
    print("allowed, never seen:", *sorted(policy.allowed("full") - set(seen.times)))
    gaps = [
        call
        for call, (kind, reason) in verdicts.items()
        if "refused" in kind and (call in policy.CHECKED or not reason)
    ]
    print("needed, refused without a stated reason:", *(gaps or ["none"]))
    print(*failures, sep="\n")
    return 1 if options.check and (gaps or failures) else 0


if __name__ == "__main__":
    raise SystemExit(main())
