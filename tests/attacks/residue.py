"""Known leaks of ``landlock``. docs/security.md has the same rows; a test compares them."""

from __future__ import annotations

_METADATA = "Landlock controls opening and changing files, not names and metadata"
_NUMBERS = "without a pid namespace the numbers of other processes are visible"
_FOLDER = "a plain folder has no quota: the host polls its size, and only the size of one file is bounded"

RESIDUE: dict[str, tuple[str, str]] = {
    "stat_host_file": ("size, owner and times of a host file whose path is known", _METADATA),
    "access_host_file": ("whether a host file could be read by its mode", _METADATA),
    "readlink_host": ("the target of a link of the host", _METADATA),
    "list_attributes_of_host_file": ("names of a host file's extended attributes", _METADATA),
    "size_of_host_disk": ("size and fill of the host's disks", _METADATA),
    "chdir_to_host_folder": ("whether a folder exists; its files stay closed", _METADATA),
    "names_of_the_project": ("that this project is installed", _METADATA),
    "host_name": ("the machine's name", "without a UTS namespace there is only the host's name"),
    "see_by_signal": ("whether a process number is in use", _NUMBERS),
    "see_by_group": ("process group and session of a process", _NUMBERS),
    "see_by_priority": ("the priority of a process", _NUMBERS),
    "see_by_processors": ("which processors a process may use", _NUMBERS),
    "see_by_proc": ("that a process exists, and whose it is", _METADATA),
    "deleted_but_open": ("disk space held until the action ends", _FOLDER),
    "entries": ("any number of files, until the action ends", _FOLDER),
    "hard_links": ("any number of names of one file", _FOLDER),
}
"""Attack -> (what leaks, why). A listed attack must succeed at ``landlock``."""
