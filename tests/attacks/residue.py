"""What ``landlock`` lets through by design. The same rows stand in docs/security.md; a test compares them."""

from __future__ import annotations

_METADATA = "Landlock governs opening and changing files, not looking at names and metadata"
_NUMBERS = "without a pid namespace the numbers of other processes exist"
_FOLDER = "a plain folder has no quota: its size is looked at, and only the size of one file is bounded"

RESIDUE: dict[str, tuple[str, str]] = {
    "stat_host_file": ("size, owner and times of a host file whose path is known", _METADATA),
    "access_host_file": ("whether a host file could be read by its mode", _METADATA),
    "readlink_host": ("where a link of the host points", _METADATA),
    "list_attributes_of_host_file": ("names of a host file's extended attributes", _METADATA),
    "size_of_host_disk": ("size and fill of the host's disks", _METADATA),
    "chdir_to_host_folder": ("whether a folder exists; its files stay closed", _METADATA),
    "host_name": ("the machine's name", "without a UTS namespace there is one name for all"),
    "see_by_signal": ("whether a process number is in use", _NUMBERS),
    "see_by_group": ("process group and session of a process", _NUMBERS),
    "see_by_priority": ("how nice a process is", _NUMBERS),
    "see_by_processors": ("which processors a process may use", _NUMBERS),
    "see_by_descriptor": ("a descriptor of a process, good only to learn when it ends", _NUMBERS),
    "see_by_proc": ("that a process exists, and whose it is", _METADATA),
    "deleted_but_open": ("disk space held until the action ends", _FOLDER),
    "entries": ("any number of files, until the action ends", _FOLDER),
    "hard_links": ("any number of names of one file", _FOLDER),
}
"""Attack -> what leaks, and why. Asserted strictly: a row whose attack fails at ``landlock`` is an error."""
