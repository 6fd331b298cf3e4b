"""The child interpreter's program: set limits, read the code from a descriptor, run it as __main__.

Started as ``python -u -s -S -P runner.py CODE_FD SEED CPU_S MEMORY_BYTES FILE_BYTES PROCESSES LIBRARY...``;
unbuffered, so that output from before a kill counts. Imports as little of the standard library as possible:
every import here slows down every action.
"""

import builtins
import errno
import os
import sys
from _frozen_importlib_external import EXTENSION_SUFFIXES, PathFinder

MYPY = False  # mypy treats it as True; importing typing would slow down every action
if MYPY:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

MEMORY_EXIT, DISK_EXIT = 97, 98
"""Exit codes that report an uncaught MemoryError or a full disk to the host."""
NAME = "<action>"
SUFFIXES = ("", ".py", ".pyc", *EXTENSION_SUFFIXES)
"""What a module's file, or folder, ends with."""
NOTES = 16 * 1024
"""Bytes in front of the code, in the same file, for the names that ``observe`` notes."""
FIRST, LAST, UNSEEN = 9, slice(4, 8), 8
"""Where the first name begins; where the place of the last opened one is; whether something went unseen."""
_CHILDREN = frozenset(("subprocess.Popen", "os.system", "os.exec", "os.spawn", "os.posix_spawn"))
# fmt: off
_SILENT = frozenset((
    ":", "arch", "echo", "exit", "false", "hostname", "id", "nproc", "printenv", "printf", "pwd", "seq",
    "sleep", "true", "tty", "uname", "uptime", "which", "whoami",
))
"""Programs that open no file of the workspace."""
_SILENT_ALONE = frozenset(("date", "df", "env", "free", "ps"))
"""Programs of which the same is true without arguments."""
_SHELLS = frozenset(("sh", "bash", "dash"))
_SHELL_SIGNS = frozenset("$`<>*?[]{}()~\\#!")
"""What lets a shell open a file, list a folder or start something else."""
_FLAGS = frozenset(("-u", "-s", "-S", "-B", "-E", "-I", "-P", "-q"))
_WORDS = frozenset((
    "False", "None", "True", "break", "continue", "else", "exit", "flush", "for", "from", "if", "import",
    "in", "int", "len", "pass", "print", "quit", "range", "sleep", "stderr", "stdout", "str", "sys", "time",
    "while", "write",
))
# fmt: on
"""Names in a Python program that opens nothing."""
_LISTS = frozenset(("os.listdir", "os.scandir"))
_NAMES = frozenset(("os.rename", "os.link", "os.symlink", "sqlite3.connect"))
_NATIVE = frozenset(("ctypes.dlopen", "ctypes.dlsym", "import"))
_NOTED = _CHILDREN | _LISTS | _NAMES | _NATIVE | {"open"}
_OPEN_IN_PYTHON = frozenset(("numpy", "pandas", "scipy", "sklearn", "joblib"))
"""Packages with machine code that leave it to Python to open files, which is seen."""
_lstat = os.lstat
_SPARE = 64 * 2**20
"""Bytes kept in reserve to report that the memory is used up."""
_OTHERS = 1024
"""Processes that other actions of the same user may start at the same time."""


class AfterImport:
    """Import finder that calls ``hooks[name](module)`` right after the first import of that module."""

    def __init__(self, hooks: "dict[str, Callable[[Any], object]]") -> None:
        self.hooks = hooks

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "Any":
        """Find the module with the other finders, and attach its hook to the loader."""
        hook = self.hooks.pop(name, None)
        if hook is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((s for s in (finder.find_spec(name, path, target) for finder in others) if s), None)
        loader = spec.loader if spec is not None else None
        if loader is not None and not isinstance(loader, type):  # a class would be shared by all modules
            load = loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                load(module)
                hook(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class LibrariesFirst:
    """Import finder that keeps the files of ``folder``, which is last on ``sys.path``, apart from libraries.

    They stand in for nothing that is installed, not even for a namespace package. A library that looks for an
    optional package does not get them: otherwise ``pyarrow.py`` would be a part of pandas. Programs get them,
    and so do pickles. Whoever puts ``folder`` elsewhere on ``sys.path`` too has Python's own order.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.libraries = tuple(os.path.join(entry, "") for entry in sys.path if entry and entry != folder)
        self.packages = tuple(entry for entry in self.libraries if entry.endswith(f"-packages{os.sep}"))

    def install(self) -> None:
        """Take the place of the finder that searches ``sys.path``."""
        sys.path.append(self.folder)
        sys.meta_path[sys.meta_path.index(PathFinder)] = self

    def __getattr__(self, name: str) -> "Any":
        """What else that finder is asked for: caches to forget."""
        return getattr(PathFinder, name)

    def find_distributions(self, *context: "Any") -> "Any":
        """Installed packages, for ``importlib.metadata``: not those whose names show, but nothing else."""
        for found in PathFinder.find_distributions(*context):
            if any(found.read_text(name) for name in ("METADATA", "PKG-INFO", "")):
                yield found

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "Any":
        """The library of that name; a module of ``folder`` if there is none, and no library asks."""
        if path is not None or sys.path.count(self.folder) != 1 or not self._has(name):
            return PathFinder.find_spec(name, path, target)
        found = PathFinder.find_spec(name, [entry for entry in sys.path if entry != self.folder], target)
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            found = found or finder.find_spec(name, path, target)
        if found is None and not self._asked_by_library():
            found = PathFinder.find_spec(name, [self.folder], target)
        return found

    def _has(self, name: str) -> bool:
        return any(self._lies(os.path.join(self.folder, name + suffix)) for suffix in SUFFIXES)

    @staticmethod
    def _lies(path: str) -> bool:
        try:
            _lstat(path)  # not ``os.lstat``: it is the program's own questions that are noted
        except (OSError, ValueError):
            return False
        return True

    def _asked_by_library(self) -> bool:
        """Whether an installed package asks, or an import statement of the standard library.

        The standard library's other imports are for its callers: ``pickle`` finds a class by its name.
        """
        frame = sys._getframe(2)
        while frame.f_back and (
            frame.f_code.co_filename.startswith(("<frozen importlib", __file__))
            or str(frame.f_globals.get("__name__")).partition(".")[0]
            == "importlib"  # import_module, find_spec
        ):
            frame = frame.f_back
        file = frame.f_code.co_filename
        if file.startswith(self.packages) or not file.startswith(self.libraries):
            return file.startswith(self.packages)
        import opcode

        return frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_NAME"]


def main() -> None:
    """Read the arguments and the code, set the limits and run the code."""
    fd, seed, cpu, memory, size, processes = (int(arg) for arg in sys.argv[1:7])
    libraries = sys.argv[7:]
    content, notes = received(fd)
    os.close(fd)
    text = content.decode("utf-8")
    restrict(cpu, memory, size, processes)
    sys.argv = [NAME]
    if not getattr(sys.flags, "safe_path", False):  # before Python 3.11: the folder of this file comes first
        del sys.path[0]
    sys.path += libraries
    LibrariesFirst(os.getcwd()).install()
    lines = (len(text), None, text.splitlines(True), NAME)
    seeding = lambda module: module.seed(seed)  # noqa: E731
    hooks = {
        "random": seeding,
        "numpy.random": seeding,
        "linecache": lambda module: module.cache.update({NAME: lines}),  # tracebacks show the source
    }
    sys.meta_path.insert(0, AfterImport(hooks))
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # ``site``, which we skip, defines them
    module = type(sys)("__main__")
    module.__dict__.update(__file__=NAME, __builtins__=builtins)
    sys.modules["__main__"] = module
    if notes is not None:
        observe(notes)
    run(text, module.__dict__)


def restrict(cpu: int, memory: int, size: int, processes: int) -> None:
    """Set this process's limits: CPU seconds, bytes of memory, bytes per file, and processes."""
    import resource  # lazy: the host imports this file too, also on systems without this module

    limit(resource.RLIMIT_CPU, cpu, cpu)  # SIGKILL at once: code could catch SIGXCPU
    limit(resource.RLIMIT_AS, memory, memory + _SPARE)
    limit(resource.RLIMIT_FSIZE, size)
    limit(resource.RLIMIT_NOFILE, 256)
    limit(resource.RLIMIT_CORE, 0)
    if os.getuid() != 0:  # counts all threads of this user, so only fork bombs should hit it; root is exempt
        with open("/proc/loadavg") as file:
            running = int(file.read().split()[3].split("/")[1])
        limit(resource.RLIMIT_NPROC, running + processes + _OTHERS)


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower one limit to ``soft`` and its ceiling to ``hard``; never raise either."""
    import resource

    most = resource.getrlimit(kind)[1]
    most = sys.maxsize if most == resource.RLIM_INFINITY else most
    resource.setrlimit(kind, (min(soft, most), min(hard or soft, most)))


def received(fd: int) -> "tuple[bytes, Any]":
    """The code in ``fd``, and the memory for notes at its start, which the host reads too.

    None in place of the memory if ``fd`` holds only code, as a pipe does: the host then wants no notes.
    It must outlive the program: before Python 3.13 it keeps a descriptor, which the program could use,
    and closes that number at its end.
    """
    with open(fd, "rb", closefd=False) as stream:
        content = stream.read()
    if not content.startswith(b"\0"):  # no code does
        return content, None
    import mmap  # lazy: the host imports this file too

    if sys.version_info >= (3, 13):
        return content[NOTES:], mmap.mmap(fd, NOTES, trackfd=False)
    own = os.dup(fd)
    os.close(own)
    notes = mmap.mmap(fd, NOTES)  # takes the lowest free number, too
    os.close(own)
    return content[NOTES:], notes


def observe(notes: "Any") -> None:
    """Note the files below the working directory that the program opens, lists or asks for.

    An audit hook sees every open; questions such as ``os.path.exists`` raise no event, so ``os.stat``,
    ``os.lstat`` and ``os.access`` are replaced. A name is in the shared memory before the file is touched, so
    it outlives any end of the program. Forks share the memory; another program that it starts is not seen,
    so that only its command tells whether it can open anything: see ``quiet``. Neither is machine code that
    opens files by itself: see ``_native``.
    """
    root = os.getcwd()
    inside = os.path.join(root, "")
    known: dict[str, bytes] = {}
    # The program may replace all of these.
    cwd, clean, frame, is_a, size = os.getcwd, os.path.normpath, sys._getframe, isinstance, len
    native = _native(inside)

    def note(path: "Any", opened: bool = False, listed: bool = False) -> None:
        if is_a(path, bytes):
            path = path.decode("utf-8", "surrogateescape")
        elif is_a(path, str):
            path = str.__add__("", path)  # a subclass may redefine anything
        else:
            return
        try:
            path = clean(path if path.startswith("/") else f"{cwd()}/{path}")
            name = path[size(inside) :] if path.startswith(inside) else "." if path == root and listed else ""
            if not name:
                return
            if listed:
                name += "/"
            place = known.get(name)
            if place is None:
                data, end = (
                    name.encode("utf-8", "surrogateescape") + b"\0",
                    int.from_bytes(notes[:4], "little"),
                )
                end = end or FIRST
                if end + size(data) > NOTES:
                    notes[UNSEEN] = 1
                    return
                place = known[name] = end.to_bytes(4, "little")
                notes[end : end + size(data)] = data
                notes[:4] = (end + size(data)).to_bytes(4, "little")
        except (OSError, UnicodeError):  # the working directory is gone; a name that no file can have
            return
        if opened:
            notes[LAST] = place

    def hook(event: str, args: "tuple[Any, ...]") -> None:
        if event not in _NOTED:
            return
        if event in _CHILDREN:
            lists = _started(event, args)
            if lists is None:
                notes[UNSEEN] = 1
            elif lists:
                note(".", listed=True)
        elif event in _NATIVE:
            if native(event, args, frame(1)):
                notes[UNSEEN] = 1
        elif not args:
            return
        elif event == "open" or event in _NAMES:
            note(args[0], opened=event == "open")
        elif "importlib" not in frame(1).f_code.co_filename:  # imports list all folders of ``sys.path``
            note("." if args[0] is None else args[0], listed=True)

    for name in ("stat", "lstat", "access"):
        setattr(os, name, _noting(getattr(os, name), note))
    sys.addaudithook(hook)


def _started(event: str, args: "tuple[Any, ...]") -> "bool | None":
    """``quiet`` of the command in an audit event; None for what is no command."""
    try:
        if event == "os.system":
            return quiet(os.fsdecode(args[0]))
        return quiet([os.fsdecode(args[0]), *(os.fsdecode(word) for word in args[1][1:])])
    except (LookupError, TypeError, ValueError):
        return None


def quiet(command: "str | Sequence[str]") -> "bool | None":
    """Whether a command lists the folder, and opens no file; None if it may open one.

    A text is for a shell. Only what plainly opens nothing counts: ``true``, ``sleep 1``, ``python -c pass``.
    """
    if isinstance(command, str):
        return _quiet_shell(command)
    path, *words = command
    program = path.rpartition("/")[2]
    if "/" in path and (not path.startswith("/") or path.startswith(os.path.join(os.getcwd(), ""))):
        return None  # a program of the workspace
    if program in _SILENT or (program in _SILENT_ALONE and not words):
        return False
    if program == "ls" and all(word.startswith("-") for word in words):
        return True
    if program in _SHELLS and len(words) == 2 and words[0] == "-c":
        return _quiet_shell(words[1])
    while program.startswith("python") and words:
        if words[0] in ("-V", "--version"):
            return False
        if words[0] == "-c":
            return False if len(words) == 2 and _says_only(words[1]) else None
        if words[0] not in _FLAGS:
            break
        del words[0]
    return None


def _quiet_shell(text: str) -> "bool | None":
    if _SHELL_SIGNS.intersection(text):
        return None
    for sign in ";&|":
        text = text.replace(sign, "\n")
    commands = [line.replace("'", "").replace('"', "").split() for line in text.split("\n")]
    found = [quiet(words) for words in commands if words]
    return None if None in found else any(found)


def _says_only(code: str) -> bool:
    """Whether a Python program has only names of which none opens a file."""
    import re  # lazy: as all that is seldom needed

    bare = re.sub(r"'[^'\\]*'|\"[^\"\\]*\"", "", code)
    return set(re.findall(r"[^\W\d]\w*", bare)) <= _WORDS


def _native(inside: str) -> "Callable[[str, tuple[Any, ...], Any], bool]":
    """``native(event, args, frame)``: whether the program itself takes up machine code that may open files.

    That is a package with machine code that it imports, or ``ctypes``. What packages load for themselves, and
    what a pickle loads, does not count: it serves them, and not the program's own calls.
    """
    others = [entry for entry in sys.path if entry and entry + os.sep != inside]
    folders = tuple(os.path.join(entry, "") for entry in others if entry.endswith("-packages"))
    standard = (*(os.path.join(entry, "") for entry in others if not entry.endswith("-packages")), "<frozen ")

    def package(file: str) -> str:
        folder = next((folder for folder in folders if file.startswith(folder)), "")
        return file[len(folder) :].partition("/")[0].partition(".")[0] if folder else ""

    def native(event: str, args: "tuple[Any, ...]", frame: "Any") -> bool:
        owner, statement = "", event != "import"
        if event == "import":
            if len(args) < 2 or not isinstance(args[1], str):  # not machine code
                return False
            owner = package(args[1])
            if owner in _OPEN_IN_PYTHON or (not owner and args[1].startswith(standard)):
                return False
        while frame is not None:
            file = frame.f_code.co_filename
            if package(file):
                owner = owner or package(file)
                if package(file) != owner or owner in _OPEN_IN_PYTHON:
                    return False
            elif not file.startswith(standard):
                return statement or _imports(frame)
            elif file.endswith("/importlib/__init__.py"):
                statement = True
            frame = frame.f_back
        return False

    return native


def _imports(frame: "Any") -> bool:
    """Whether a frame is at an import statement, as opposed to a call that imports, as of ``pickle.load``."""
    import opcode

    return bool(frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_NAME"])


def _noting(real: "Any", note: "Callable[[Any], None]") -> "Any":
    """``real``, a function of ``os``, which first notes the path that it is asked about."""

    def asked(*args: "Any", **options: "Any") -> "Any":
        path: Any = args[0] if args else options.get("path")
        try:
            note(path.__fspath__() if hasattr(type(path), "__fspath__") else path)
            return real(*args, **options)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
            raise

    asked.__name__, asked.__qualname__, asked.__module__, asked.__doc__ = (
        real.__name__,
        real.__name__,
        "os",
        real.__doc__,
    )
    asked.__text_signature__ = real.__text_signature__  # type: ignore[attr-defined]
    for able in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if real in able:
            able.add(asked)
    return asked


def run(text: str, scope: "dict[str, Any]") -> None:
    """Run ``text`` as a program in ``scope``; exits with a code that names the cause of a failure."""
    try:
        exec(compile(text, NAME, "exec", dont_inherit=True), scope)  # noqa: S102  (the child's whole job)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  (reported as the interpreter would, then the exit code)
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None  # not our frame
        status = report(error)
        sys.exit(status)


def report(error: BaseException) -> int:
    """Print the traceback; returns the exit code that names the cause."""
    if isinstance(error, MemoryError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    import traceback

    traceback.print_exception(error)
    if isinstance(error, MemoryError):
        return MEMORY_EXIT
    full = isinstance(error, OSError) and error.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
    return DISK_EXIT if full else 1


if __name__ == "__main__":
    main()
