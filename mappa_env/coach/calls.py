"""Whether code whose run went unobserved may have opened a file: whether it calls anything that could."""

from __future__ import annotations

import ast
import builtins
import functools

from mappa_env.pyast import parse_module
from mappa_env.sandbox.runner import quiet

_OPENERS = {"open", "exec", "eval", "compile", "input", "getattr", "globals", "locals", "vars", "breakpoint"}
_BUILTINS = {name for name in vars(builtins) if not name.startswith("_")} - _OPENERS
"""Builtins that open no file."""
_MODULES = {
    "sys",
    "time",
    "math",
    "random",
    "datetime",
    "string",
    "textwrap",
    "re",
    "itertools",
    "collections",
}
"""Modules of the standard library whose functions open no file."""

_STARTERS = {
    "os.system",
    "os.popen",
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen", "getoutput")),
}

_LONGEST = 50_000
"""Characters: the parser takes half a second for them at worst."""


@functools.lru_cache(maxsize=256)
def may_open(code: str) -> bool:
    """Whether ``code`` calls anything that is not certain to open no file.

    An import is no call: the benefit of the doubt is for code that did something which may have gone
    unobserved. Certain are builtins, functions of a few modules, and what the code itself defines, for its
    own calls count. True for code that is too long to look through or that this Python cannot parse: the
    sandbox's may be a newer one.
    """
    if len(code) > _LONGEST:
        return True
    try:
        nodes = list(ast.walk(parse_module(code.encode("utf-8", "surrogatepass"))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    certain, bound = set(_BUILTINS), set[str]()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            certain.add(node.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                (certain if alias.name in _MODULES else bound).add(
                    alias.asname or alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            (certain if node.module in _MODULES and not node.level else bound).update(names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    roots = {_root(node.func) for node in nodes if isinstance(node, ast.Call) and not _is_quiet(node)}
    return bool(roots - (certain - bound) - {""})


def _is_quiet(call: ast.Call) -> bool:
    """Whether a call starts a program that plainly opens nothing, by a command that is written out."""
    started = ast.unparse(call.func)
    if started not in _STARTERS or not call.args or any(each.arg == "executable" for each in call.keywords):
        return False
    try:
        command = ast.literal_eval(ast.unparse(call.args[0]).replace("sys.executable", "'python'"))
    except (SyntaxError, ValueError):
        return False
    words = [command] if isinstance(command, str) else command
    return (
        isinstance(words, list) and all(isinstance(word, str) for word in words) and quiet(command) is False
    )


def _root(function: ast.expr) -> str:
    """The name at which a called expression begins; empty: a constant, a lambda; "?": unknown."""
    while isinstance(function, ast.Attribute | ast.Subscript | ast.Call):
        function = function.func if isinstance(function, ast.Call) else function.value
    if isinstance(function, ast.Name):
        return function.id
    return "" if isinstance(function, ast.Constant | ast.JoinedStr | ast.Lambda) else "?"
