"""The system call filter of an action: `syscall_policy` assembled into a BPF program and installed.

The program is a binary search over ranges of call numbers, so it takes about eight comparisons. Calls that
are always allowed skip it: since 5.11 the kernel evaluates each number once at installation and caches those
verdicts. So short paths also make installation cheap.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import get_args

from . import syscall_policy as policy
from .syscall_numbers import NUMBERS

# linux/audit.h
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
ALLOW, KILL_PROCESS, NOTIFY = 0x7FFF0000, 0x80000000, 0x7FC00000
DENY, NO_SUCH_CALL = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_SIZE = 0x5A17C0DE
"""Stands in a program for the size from which requests for memory are asked about."""

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
_Verdict = int | tuple[tuple[policy.Check, ...], policy.Ask | None]


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.POINTER(_Program))
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4


def build(
    level: policy.Level, machine: str | None = None, *, abi: int = policy.NEWEST, listener: bool = False
) -> bytes:
    """The filter of `level` as an array of struct sock_filter, for `machine` (None: this one).

    `abi`: the kernel's Landlock ABI; at landlock the filter compensates for gaps of old versions.
    `listener`: the calls in `ASKED` wait for a listener; `asking_from` completes it. Otherwise they run.

    Raises OSError for an unknown architecture.
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
        *_search(_ranges(policy.allowed(level, abi), NUMBERS[machine], policy.ASKED if listener else {})),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def asking_from(program: bytes, size: int) -> bytes:
    """`program`, asking about requests for at least `size` bytes of memory (below 4 GiB)."""
    return program.replace(struct.pack("=I", _SIZE), struct.pack("=I", min(size, 0xFFFFFFFF)))


def install(program: bytes, *, listener: bool = False) -> int:
    """Apply `program` permanently to the calling thread and all that it starts later. Raises OSError.

    Also sets no_new_privs; without it the kernel requires CAP_SYS_ADMIN. Does not affect other threads.
    `listener`: returns a descriptor to which calls in `ASKED` go.
    """
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    fprog = _Program(len(program) // 8, program)
    number = NUMBERS[platform.machine()]["seccomp"]
    done: int = _syscall(
        number, _SECCOMP_SET_MODE_FILTER, _NEW_LISTENER if listener else 0, ctypes.byref(fprog)
    )
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp filter refused: {os.strerror(code)}")
    return done


def _ranges(
    allowed: frozenset[str], numbers: dict[str, int], asked: Mapping[str, policy.Ask]
) -> list[tuple[int, _Verdict]]:
    """(first number, verdict) of each run of equal verdicts; the last run is open-ended and includes x32."""
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
            verdict = (policy.CHECKED[name], asked.get(name)) if name in policy.CHECKED else DENY
        if not runs or runs[-1][1] != verdict:
            runs.append((number, verdict))
    return runs


def _search(runs: Sequence[tuple[int, _Verdict]]) -> list[_Instruction]:
    """Instructions that find the run of the call number in the accumulator and return its verdict."""
    if len(runs) == 1:
        verdict = runs[0][1]
        return [(_RETURN, 0, 0, verdict)] if isinstance(verdict, int) else _checks(*verdict)
    middle = len(runs) // 2
    below, above = _search(runs[:middle]), _search(runs[middle:])
    if len(below) <= 255:
        return [(_AT_LEAST, len(below), 0, runs[middle][0]), *below, *above]
    # A conditional jump skips at most 255 instructions, an unconditional one any number.
    return [(_AT_LEAST, 0, 1, runs[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above]


def _checks(checks: Sequence[policy.Check], ask: policy.Ask | None) -> list[_Instruction]:
    """Instructions that refuse the call unless every check passes, and ask if `ask` matches."""
    program: list[_Instruction] = []
    for check in checks:
        program += [*_compare(check), (_RETURN, 0, 0, DENY)]
    if ask is None:
        return [*program, (_RETURN, 0, 0, ALLOW)]
    if ask.values:
        program += _compare(ask)
    else:
        low = _ARGS + 8 * ask.arg
        program += [
            (_LOAD, 0, 0, low + 4),
            (_AT_LEAST, 3, 0, 1),
            (_LOAD, 0, 0, low),
            (_AT_LEAST, 1, 0, _SIZE),
        ]
    return [*program, (_RETURN, 0, 0, ALLOW), (_RETURN, 0, 0, NOTIFY)]


def _compare(test: policy.Check | policy.Ask) -> list[_Instruction]:
    """Instructions that skip the instruction after them if the argument is one of the values."""
    program = [(_LOAD, 0, 0, _ARGS + 8 * test.arg)]  # the low half: both architectures are little-endian
    if test.mask != 0xFFFFFFFF:
        program.append((_AND, 0, 0, test.mask))
    for left, value in zip(range(len(test.values), 0, -1), test.values, strict=True):
        program.append((_EQUAL, left, 0, value))
    return program
