"""What the child interpreter runs: set limits, read the code from a descriptor, run it as __main__.

Started as ``python -s -S -P runner.py CODE_FD SEED CPU_S MEMORY_BYTES FILE_BYTES PROCESSES SITE...``. Only
the standard library, and as little of it as possible: every import here is paid by every action.
"""

import os
import resource
import sys

MEMORY_EXIT, DISK_EXIT = 97, 98


def limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


class SeedNumpy:
    """Seeds numpy's legacy generator when, and only when, the action imports numpy."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "numpy.random":
            return None
        sys.meta_path.remove(self)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):  # type: ignore[no-untyped-def]
            load(module)
            module.seed(self.seed)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def main() -> None:
    fd, seed, cpu, memory, size, processes = (int(arg) for arg in sys.argv[1:7])
    site = sys.argv[7:]
    with os.fdopen(fd, "rb") as stream:
        code = stream.read()
    limit(resource.RLIMIT_CPU, cpu)
    limit(resource.RLIMIT_AS, memory)
    limit(resource.RLIMIT_FSIZE, size)
    limit(resource.RLIMIT_NOFILE, 256)
    limit(resource.RLIMIT_CORE, 0)
    if os.getuid() != 0:  # it would count all processes of the user; root is exempt anyway
        limit(resource.RLIMIT_NPROC, processes)
    sys.argv = ["<action>"]
    sys.path += [*site, os.getcwd()]  # last: a file of the workspace cannot stand in for a library
    sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
    sys.meta_path.insert(0, SeedNumpy(seed))
    if "random" in sys.modules or b"random" in code:
        import random

        random.seed(seed)
    module = type(sys)("__main__")
    module.__dict__.update(__file__="<action>", __builtins__=__builtins__)
    sys.modules["__main__"] = module
    run(code, module.__dict__)


def run(code, scope):  # type: ignore[no-untyped-def]
    try:
        text = code.decode("utf-8", "replace")
        exec(compile(text, "<action>", "exec", dont_inherit=True), scope)  # noqa: S102  (the child's whole job)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  (reported as the interpreter would, then the exit code)
        import linecache
        import traceback

        linecache.cache["<action>"] = (len(text), None, text.splitlines(True), "<action>")
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error.with_traceback(trace), trace)
        status = 1
        if isinstance(error, MemoryError):
            status = 97
        elif isinstance(error, OSError) and error.errno in (27, 28):  # EFBIG, ENOSPC
            status = 98
        sys.exit(status)


main()
