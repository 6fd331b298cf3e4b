"""System call numbers by name: (x86-64, aarch64); -1 where the machine has no such call."""

from __future__ import annotations

import platform

_NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "capget": (125, 90), "capset": (126, 91),
    "chroot": (161, 51), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_setup": (206, 0),
    "io_uring_setup": (425, 425), "ioperm": (173, -1), "iopl": (172, -1), "ioprio_set": (251, 30),
    "kcmp": (312, 272), "kexec_load": (246, 104), "keyctl": (250, 219), "listmount": (458, 458),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "modify_ldt": (154, -1), "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "move_pages": (279, 239), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41), "prlimit64": (302, 261), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142), "renameat2": (316, 276),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "seccomp": (317, 277), "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "settimeofday": (164, 170), "splice": (275, 76), "swapoff": (168, 225), "swapon": (167, 224),
    "syslog": (103, 116), "tee": (276, 77), "tgkill": (234, 131), "tkill": (200, 130),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "vmsplice": (278, 75),
}  # fmt: skip
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(platform.machine())

NUMBERS = {name: -1 if _COLUMN is None else both[_COLUMN] for name, both in _NUMBERS.items()}
