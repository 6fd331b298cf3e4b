"""The system calls that an action may make, by name, and why: data only, the same for every architecture.

A call in `ALLOWED` runs. One in `CHECKED` runs if its arguments pass; if they also match `ASKED` and the
filter has a listener, it waits for the zygote's word (`supervisor`). One in `MISSING` fails with ENOSYS, so
that the C library falls back to an older call. Every other known call fails with EPERM: `REFUSED` states the
reasons. `REFUSED_AT_LANDLOCK` removes calls that are safe only in a separate namespace. The lists come from
traces of scientific code (tools/derive_syscalls.py), extended by the variants of each call, so that other C
libraries and architectures work too.
"""

from typing import Literal, NamedTuple

Level = Literal["full", "landlock"]


class Group(NamedTuple):
    """System calls that share one reason."""

    reason: str
    calls: frozenset[str]


class Check(NamedTuple):
    """The low 32 bits of argument `arg`, masked by `mask`, must be one of `values`.

    The kernel reads all arguments checked here as 32-bit integers and ignores the upper half.
    """

    arg: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


class Ask(NamedTuple):
    """The low 32 bits of argument `arg`, masked by `mask`, are one of `values`.

    Without `values`: all 64 bits are at least the size that the zygote wants to know of.
    """

    arg: int
    values: tuple[int, ...] = ()
    mask: int = 0xFFFFFFFF


def _group(reason: str, calls: str) -> Group:
    return Group(reason, frozenset(calls.split()))


CLAIM = 0x4D617050
"""An option of prctl with which an action says that a limit ended it. The kernel has no such option."""
CLAIMS = ("memory", "disk", "processes")
"""The limits that it may name; the second argument of the call is the index."""

ALLOWED: tuple[Group, ...] = (
    _group(
        "read and write files; mounts and Landlock decide which",
        """read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek open openat openat2
        creat close close_range dup dup2 dup3 truncate ftruncate fallocate fadvise64 readahead
        sync_file_range fsync fdatasync sendfile copy_file_range""",
    ),
    _group(
        "inspect files and folders",
        """stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64
        getcwd readlink readlinkat getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr
        listxattrat""",
    ),
    _group(
        "change folders; Landlock refuses links and special files",
        """chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink
        symlinkat umask""",
    ),
    _group(
        "change the attributes of files, within the action's own mounts",
        """chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes utimensat futimesat
        setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat""",
    ),
    _group("memory", "brk munmap mprotect msync mseal map_shadow_stack"),
    _group(
        "start, wait for and end processes and threads",
        """fork vfork execve execveat wait4 waitid exit exit_group pidfd_open set_tid_address set_robust_list
        get_robust_list rseq futex arch_prctl""",
    ),
    _group("own sessions and process groups, within the action's own pids", "setsid setpgid"),
    _group(
        "query itself and the machine",
        """getpid gettid getppid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid
        getgroups capget getrusage getrlimit times sysinfo uname getcpu getrandom get_mempolicy
        getpriority""",
    ),
    _group("lower its own limits; raising a hard limit needs a capability", "setrlimit"),
    _group("lower its own priority", "setpriority sched_setparam"),
    _group(
        "scheduling: query and yield",
        """sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr
        sched_get_priority_max sched_get_priority_min sched_rr_get_interval""",
    ),
    _group(
        "signals; the pid namespace and Landlock's scope decide to whom",
        """kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal rt_sigaction rt_sigprocmask
        rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack pause restart_syscall
        signalfd signalfd4""",
    ),
    _group(
        "clocks and timers",
        """clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time alarm getitimer setitimer
        timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create
        timerfd_settime timerfd_gettime""",
    ),
    _group(
        "wait for events; pipes between its own processes",
        """poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
        epoll_pwait2 eventfd eventfd2 pipe pipe2""",
    ),
    _group(
        "use socket pairs, the only sockets available",
        "shutdown getsockname getpeername",
    ),
)

CLONE_FILES, CLONE_THREAD = 0x400, 0x10000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; and CLONE_PARENT, which would give the
# zygote a child that it never started. (clone() has no CLONE_NEWTIME: that bit is part of the exit signal.)
CLONE_REFUSED_FLAGS = 0x7E020000 | 0x8000

CHECKED: dict[str, tuple[Check, ...]] = {
    "clone": (
        Check(0, (0,), CLONE_REFUSED_FLAGS),
        # Only threads of one process may share descriptors: otherwise a process with one thread, whose call
        # the zygote has looked at, could get another file under the same number.
        Check(0, (0, CLONE_THREAD, CLONE_THREAD | CLONE_FILES), CLONE_THREAD | CLONE_FILES),
    ),
    # AF_UNIX; SOCK_STREAM or SOCK_SEQPACKET, optionally with SOCK_CLOEXEC and SOCK_NONBLOCK. Not SOCK_DGRAM:
    # a datagram socket could send to any visible socket file.
    "socketpair": (Check(0, (1,)), Check(1, (1, 5), 0xFFFFFFFF & ~0x80800)),
    # Not MSG_OOB, which few programs need and which has broken other sandboxes.
    "sendto": (Check(3, (0,), 1),),
    "recvfrom": (Check(3, (0,), 1),),
    "sendmsg": (Check(2, (0,), 1),),
    "recvmsg": (Check(2, (0,), 1),),
    # SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN of SOL_SOCKET. Not who
    # made the socket: an action's output goes to the host through one.
    "getsockopt": (Check(1, (1,)), Check(2, (3, 4, 7, 8, 30, 38, 39))),
    # TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TIOCGWINSZ, TIOCGPGRP, TCGETS2 (isatty() in newer glibc)
    "ioctl": (Check(1, (0x5401, 0x541B, 0x5421, 0x5451, 0x5450, 0x5413, 0x540F, 0x802C542A)),),
    # Descriptors, flags, locks (F_OFD_* too), F_GETOWN, F_DUPFD_QUERY, F_DUPFD_CLOEXEC, pipe sizes, seals.
    # Not leases, directory notifications or owners: those reach other processes.
    "fcntl": (Check(1, (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1027, 1030, 1031, 1032, 1034)),),
    # SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE, SET_NAME, GET_NAME, GET_SECCOMP, CAPBSET_READ,
    # SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS, GET_THP_DISABLE, SET_VMA (names a mapping),
    # and CLAIM, which is none of the kernel's
    "prctl": (Check(0, (1, 2, 3, 15, 16, 21, 23, 38, 39, 42, 0x53564D41, CLAIM)),),
    "prlimit64": (Check(0, (0,)),),
    # MAP_SHARED or MAP_ANONYMOUS, not both: such memory stays allocated after MADV_DONTNEED, but no process's
    # resident size includes it. (MAP_SHARED_VALIDATE includes the bit of MAP_SHARED.)
    # Neither MAP_POPULATE nor MAP_LOCKED: the kernel fills such memory at once, and only SIGKILL ends that.
    "mmap": (Check(3, (0x00, 0x01, 0x20), 0x21), Check(3, (0,), 0xA000)),
    # Nor MADV_POPULATE_READ and _WRITE (22, 23), which do the same. 25: COLLAPSE; 102, 103: guard pages
    "madvise": (Check(2, (*range(5), *range(8, 22), 25, 102, 103)),),
    "mremap": (),
    "flock": (),
}

ASKED: dict[str, Ask] = {
    # Locks on files that other actions see too would be a channel to them. F_GETLK, F_OFD_GETLK: of the locks
    # that fcntl sets, those on read-only files disturb nobody but show here. The template holds the others.
    "flock": Ask(1, (0,), 0),
    "fcntl": Ask(1, (5, 36)),
    # Requests that may be refused because the memory limit is reached: nothing else shows that.
    "mmap": Ask(1),
    "mremap": Ask(2),
    "prctl": Ask(0, (CLAIM,)),
}

MISSING = frozenset({"clone3"})  # a filter cannot read its flags; glibc falls back to clone()

REFUSED: tuple[Group, ...] = (
    _group(
        "no network",
        "socket connect bind listen accept accept4 setsockopt sendmmsg recvmmsg",
    ),
    _group(
        "no namespaces, mounts or other roots",
        """unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount mount_setattr
        fsopen fsconfig fsmount fspick statmount listmount listns""",
    ),
    _group(
        "no other identity or privilege",
        "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset personality",
    ),
    _group(
        "no access to other processes",
        """ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
        migrate_pages move_pages""",
    ),
    _group(
        "large, often broken kernel interfaces",
        """io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_submit io_cancel
        io_getevents io_pgetevents userfaultfd bpf perf_event_open keyctl add_key request_key vmsplice
        splice tee modify_ldt remap_file_pages""",
    ),
    _group(
        "no change of the filter and the rules",
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self lsm_set_self_attr",
    ),
    _group(
        "memory that no process's resident size shows, or that outlives its process",
        """memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop
        semctl semtimedop mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr""",
    ),
    _group("memory that cannot be reclaimed", "mlock mlock2 mlockall munlock munlockall"),
    _group(
        "no control over scheduling and placement",
        """sched_setaffinity sched_setscheduler sched_setattr ioprio_set mbind set_mempolicy
        set_mempolicy_home_node""",
    ),
    _group(
        "the machine's own settings",
        """reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff acct
        quotactl quotactl_fd sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex
        iopl ioperm syslog vhangup sync syncfs""",
    ),
    _group("files by handle", "name_to_handle_at open_by_handle_at lookup_dcookie file_setattr"),
    _group("no device, FIFO or socket files", "mknod mknodat"),
    _group(
        "watching others' files",
        """inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark mincore
        cachestat""",
    ),
)

REFUSED_AT_LANDLOCK: tuple[Group, ...] = (
    _group("leaves the process group that is killed at the end", "setsid setpgid"),
    _group(
        "Landlock does not govern attributes",
        """chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes utimensat futimesat
        setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat""",
    ),
    _group("other processes of the user are in reach", "setpriority sched_setparam"),
    _group("all who see a process share one file of it, and its locks", "pidfd_open"),
)

UNGOVERNED: tuple[tuple[int, Group], ...] = (
    (3, _group("this version of Landlock does not govern truncation", "truncate")),
    (
        6,
        _group(
            "this version of Landlock lets signals out",
            "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal",
        ),
    ),
)
"""Calls refused at landlock if the kernel's Landlock ABI is older than the number."""
NEWEST = 6
"""The first ABI version that needs none of ``UNGOVERNED``."""


def allowed(level: Level, abi: int = NEWEST) -> frozenset[str]:
    """Calls that run whatever their arguments, given a Landlock of version ``abi``."""
    calls = frozenset[str]().union(*(group.calls for group in ALLOWED))
    if level == "landlock":
        old = tuple(group for since, group in UNGOVERNED if abi < since)
        calls -= frozenset[str]().union(*(group.calls for group in REFUSED_AT_LANDLOCK + old))
    return calls


def refusal(call: str, level: Level) -> str | None:
    """The stated reason for always refusing `call`; None if there is none."""
    groups = REFUSED + (REFUSED_AT_LANDLOCK if level == "landlock" else ())
    return next((group.reason for group in groups if call in group.calls), None)
