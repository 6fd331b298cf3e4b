"""Which system calls an action may make, and why: data only, by name, the same for every architecture.

A call in `ALLOWED` runs; one in `CHECKED` runs when its arguments pass; one in `MISSING` answers ENOSYS, so
that the C library falls back to an older call; every other known call answers EPERM. `REFUSED` states reasons
for those, and `REFUSED_AT_LANDLOCK` takes away what only a namespace of its own makes harmless. The lists
come from what scientific code is seen to call (tools/derive_syscalls.py), widened by the close kin of each
call (old and new forms of one operation, so that another C library or architecture works too).
"""

from typing import Literal, NamedTuple

Level = Literal["full", "landlock"]


class Group(NamedTuple):
    reason: str
    calls: frozenset[str]


class Check(NamedTuple):
    """The low 32 bits of argument `arg`, masked by `mask`, must be one of `values`.

    The kernel reads all arguments checked here as 32-bit integers, so the upper half cannot hide anything.
    """

    arg: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


def _group(reason: str, calls: str) -> Group:
    return Group(reason, frozenset(calls.split()))


ALLOWED: tuple[Group, ...] = (
    _group(
        "read and write files; which ones is for mounts and Landlock to say",
        """read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek open openat openat2
        creat close close_range dup dup2 dup3 truncate ftruncate fallocate fadvise64 readahead
        sync_file_range fsync fdatasync flock sendfile copy_file_range""",
    ),
    _group(
        "look at files and folders",
        """stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64
        getcwd readlink readlinkat getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr
        listxattrat""",
    ),
    _group(
        "change folders; links and special files are refused by Landlock",
        """chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink
        symlinkat umask""",
    ),
    _group(
        "change the attributes of files, within the action's own mounts",
        """chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes utimensat futimesat
        setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat""",
    ),
    _group("memory", "brk munmap mremap mprotect madvise msync mseal map_shadow_stack"),
    _group(
        "start, await and end processes and threads",
        """fork vfork execve execveat wait4 waitid exit exit_group pidfd_open set_tid_address set_robust_list
        get_robust_list rseq futex arch_prctl""",
    ),
    _group("own sessions and process groups, within the action's own pids", "setsid setpgid"),
    _group(
        "ask about itself and the machine",
        """getpid gettid getppid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid
        getgroups capget getrusage getrlimit times sysinfo uname getcpu getrandom get_mempolicy
        getpriority""",
    ),
    _group("lower its own limits; a hard limit cannot rise without a capability", "setrlimit"),
    _group("be nice", "setpriority sched_setparam"),
    _group(
        "scheduling: ask and yield",
        """sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr
        sched_get_priority_max sched_get_priority_min sched_rr_get_interval""",
    ),
    _group(
        "signals; to whom is for the pid namespace and Landlock's scope to say",
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
        "talk over socket pairs, the only sockets there are",
        "sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt",
    ),
)

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; and CLONE_PARENT, which would give the
# server a child it never started. (CLONE_NEWTIME is no flag of clone(): its bit belongs to the exit signal.)
CLONE_REFUSED_FLAGS = 0x7E020000 | 0x8000

CHECKED: dict[str, tuple[Check, ...]] = {
    "clone": (Check(0, (0,), CLONE_REFUSED_FLAGS),),
    # AF_UNIX; SOCK_STREAM or SOCK_SEQPACKET with SOCK_CLOEXEC and SOCK_NONBLOCK at will. Not SOCK_DGRAM: a
    # datagram socket could send to any socket file in sight.
    "socketpair": (Check(0, (1,)), Check(1, (1, 5), 0xFFFFFFFF & ~0x80800)),
    # TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TIOCGWINSZ, TIOCGPGRP, TCGETS2 (isatty() in newer glibc)
    "ioctl": (Check(1, (0x5401, 0x541B, 0x5421, 0x5451, 0x5450, 0x5413, 0x540F, 0x802C542A)),),
    # Descriptors, flags, locks (F_OFD_* too), F_GETOWN, F_DUPFD_QUERY, F_DUPFD_CLOEXEC, pipe sizes, seals.
    # Not leases, notices or owners: those reach other processes.
    "fcntl": (Check(1, (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1027, 1030, 1031, 1032, 1034)),),
    # SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE, SET_NAME, GET_NAME, GET_SECCOMP, CAPBSET_READ,
    # SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS, GET_THP_DISABLE, SET_VMA (names a mapping)
    "prctl": (Check(0, (1, 2, 3, 15, 16, 21, 23, 38, 39, 42, 0x53564D41)),),
    "prlimit64": (Check(0, (0,)),),
    # MAP_SHARED or MAP_ANONYMOUS, not both: such memory stays full after MADV_DONTNEED, and then no process's
    # resident size shows it. (MAP_SHARED_VALIDATE has the bit of MAP_SHARED.)
    "mmap": (Check(3, (0x00, 0x01, 0x20), 0x21),),
}

MISSING = frozenset({"clone3"})  # its flags lie behind a pointer; glibc then calls clone()

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
        "no reach into other processes",
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
        "the filter and the rules stay as they are",
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self lsm_set_self_attr",
    ),
    _group(
        "memory that no process's resident size shows, or that outlives its process",
        """memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop
        semctl semtimedop mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr""",
    ),
    _group("memory that cannot be taken back", "mlock mlock2 mlockall munlock munlockall"),
    _group(
        "a share of the processors that others decide",
        """sched_setaffinity sched_setscheduler sched_setattr ioprio_set mbind set_mempolicy
        set_mempolicy_home_node""",
    ),
    _group(
        "the machine's own settings",
        """reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff acct
        quotactl quotactl_fd sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex
        iopl ioperm syslog vhangup sync syncfs""",
    ),
    _group("files beside their paths", "name_to_handle_at open_by_handle_at lookup_dcookie file_setattr"),
    _group("no device, FIFO or socket files", "mknod mknodat"),
    _group(
        "watching others' files",
        """inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark mincore
        cachestat""",
    ),
)

REFUSED_AT_LANDLOCK: tuple[Group, ...] = (
    _group("leaves the group that is killed at the end", "setsid setpgid"),
    _group(
        "Landlock does not govern attributes",
        """chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes utimensat futimesat
        setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat""",
    ),
    _group("other processes of the user are in reach", "setpriority sched_setparam"),
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
"""Refused at landlock where the kernel's Landlock ABI is older than the number."""
NEWEST = 6
"""From this ABI version on nothing of that is needed."""


def allowed(level: Level, abi: int = NEWEST) -> frozenset[str]:
    """Calls that run whatever their arguments are, beside Landlock of that ABI version."""
    calls = frozenset[str]().union(*(group.calls for group in ALLOWED))
    if level == "landlock":
        old = tuple(group for since, group in UNGOVERNED if abi < since)
        calls -= frozenset[str]().union(*(group.calls for group in REFUSED_AT_LANDLOCK + old))
    return calls


def refusal(call: str, level: Level) -> str | None:
    """The stated reason for refusing `call` whatever its arguments are; None when none is stated."""
    groups = REFUSED + (REFUSED_AT_LANDLOCK if level == "landlock" else ())
    return next((group.reason for group in groups if call in group.calls), None)
