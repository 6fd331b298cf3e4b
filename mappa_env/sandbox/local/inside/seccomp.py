"""The system call filter of an action: `syscall_policy` assembled into a BPF program and installed.

The program is a binary search over ranges of call numbers, so it takes about eight comparisons. Calls that
are allowed whatever their arguments never run it: the kernel (5.11 and later) tries each number once when the
filter is installed and remembers those. So a short way to every verdict also makes installing cheap.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from typing import get_args

from . import syscall_policy as policy
from .syscall_numbers import NUMBERS

# linux/audit.h
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000  # x86-64's second set of call numbers

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
DENY, NO_SUCH_CALL = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
_Verdict = int | tuple[policy.Check, ...]


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.POINTER(_Program))
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4


def build(level: policy.Level, machine: str | None = None, *, abi: int = policy.NEWEST) -> bytes:
    """The filter of `level` as an array of struct sock_filter, for `machine` (None: this one).

    `abi`: of the Landlock beside it; at landlock the filter makes up for what an old one does not govern.

    Raises OSError on an architecture whose call numbers are not known here.
    """
    machine = machine or platform.machine()
    if machine not in AUDIT_ARCH:
        known = ", ".join(AUDIT_ARCH)
        raise OSError(
            errno.ENOSYS, f"no system call filter for the architecture {machine!r} (known: {known})"
        )
    if level not in get_args(policy.Level):
        raise ValueError(f"unknown level {level!r}")
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        *_search(_ranges(policy.allowed(level, abi), NUMBERS[machine])),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def install(program: bytes) -> None:
    """Put the calling thread, and all it starts from now on, under `program` for good. Raises OSError.

    Sets no_new_privs too, without which the kernel wants CAP_SYS_ADMIN. Other threads of the process stay
    free.
    """
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    fprog = _Program(len(program) // 8, program)
    number = NUMBERS[platform.machine()]["seccomp"]
    if _syscall(number, _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(fprog)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp filter refused: {os.strerror(code)}")


def _ranges(allowed: frozenset[str], numbers: dict[str, int]) -> list[tuple[int, _Verdict]]:
    """(first number, verdict) of each run of numbers with one verdict; the last has no end (x32 is in it)."""
    runs: list[tuple[int, _Verdict]] = []
    by_number = {number: name for name, number in numbers.items()}
    for number in range(max(by_number) + 2):
        name = by_number.get(number)
        verdict: _Verdict
        if name is None or name in policy.MISSING:
            verdict = NO_SUCH_CALL
        elif name in allowed:
            verdict = ALLOW
        else:
            verdict = policy.CHECKED.get(name, DENY)
        if not runs or runs[-1][1] != verdict:
            runs.append((number, verdict))
    return runs


def _search(runs: Sequence[tuple[int, _Verdict]]) -> list[_Instruction]:
    """Instructions that find the run of the number in the accumulator and return its verdict."""
    if len(runs) == 1:
        verdict = runs[0][1]
        return [(_RETURN, 0, 0, verdict)] if isinstance(verdict, int) else _checks(verdict)
    middle = len(runs) // 2
    below, above = _search(runs[:middle]), _search(runs[middle:])
    if len(below) <= 255:
        return [(_AT_LEAST, len(below), 0, runs[middle][0]), *below, *above]
    # A conditional jump reaches 255 instructions, an unconditional one any number.
    return [(_AT_LEAST, 0, 1, runs[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]


def _checks(checks: Sequence[policy.Check]) -> list[_Instruction]:
    """Instructions that allow the call when every check passes, refuse it otherwise."""
    program: list[_Instruction] = []
    for check in checks:
        program.append(
            (_LOAD, 0, 0, _ARGS + 8 * check.arg)
        )  # the low half: both architectures are little-endian
        if check.mask != 0xFFFFFFFF:
            program.append((_AND, 0, 0, check.mask))
        for left, value in zip(range(len(check.values), 0, -1), check.values, strict=True):
            program.append((_EQUAL, left, 0, value))
        program.append((_RETURN, 0, 0, DENY))
    return [*program, (_RETURN, 0, 0, ALLOW)]
