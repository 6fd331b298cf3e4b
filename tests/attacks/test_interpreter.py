"""Interpreter: shadowed modules, hooks, exit handlers, threads, other programs, other interpreters."""

from __future__ import annotations

import pytest

from attacks.harness import LIMITS, battery, table
from attacks.levels import LEVELS, Sandboxes

ATTACKS = [
    *table("""
### another_interpreter
import os, sys
os.execv(sys.executable, [sys.executable, '-S', '-c', "print(open('$secret').read())"])
### interpreter_of_the_system
import glob, subprocess
for path in glob.glob('/usr/bin/python3*') + glob.glob('/usr/bin/perl') + ['/bin/sh']:
    flag, code = '-c', "print(open('$secret').read())"
    if path.endswith('perl'):
        flag, code = '-e', 'open F, "$secret"; print <F>'
    if path.endswith('sh'):
        code = 'cat $secret'
    print(subprocess.run([path, flag, code], capture_output=True).stdout)
### loader_of_programs
import glob, subprocess
for loader in glob.glob('/lib*/ld-linux*') + glob.glob('/lib*/*/ld-linux*'):
    print(subprocess.run([loader, '/bin/cat', '$secret'], capture_output=True).stdout)
### own_program
import os, subprocess
open('run', 'w').write('#!/bin/sh\\ncat $secret')
try:
    os.chmod('run', 0o755)
except OSError:
    pass
print(subprocess.run(['./run'], capture_output=True).stdout)
### program_without_a_file
import os
f = os.memfd_create('x')
os.write(f, b'#!/bin/sh\\ncat $secret\\n')
os.set_inheritable(f, True)
if os.fork() == 0:
    os.execve(f, ['x'], {})
os.wait()
### multiprocessing_spawn
import subprocess, sys
open('job.py', 'w').write('''
import multiprocessing
def work(path):
    return open(path).read()
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(1) as pool:
        print(pool.map(work, ['$secret']))
''')
print(subprocess.run([sys.executable, '-S', 'job.py'], capture_output=True).stdout)
### thread
import threading
t = threading.Thread(target=lambda: print(open('$secret').read()))
t.start()
t.join()
### exit_handler
import atexit
atexit.register(lambda: print(open('$secret').read()))
### destructor
class Late:
    def __del__(self):
        print(open('$secret').read())
x = Late()
del x
### signal_handler
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print(open('$secret').read()))
os.kill(os.getpid(), signal.SIGUSR1)
### machine_code
import ctypes
libc = ctypes.CDLL(None)
text = ctypes.create_string_buffer(99)
f = libc.open(b'$secret', 0)
libc.read(f, text, 99)
print(text.value)
### error_text_of_the_host
import traceback, linecache
try:
    linecache.checkcache()
    print(linecache.getlines('$secret'))
    exec(compile('1 / 0', '$secret', 'exec'))
except ZeroDivisionError:
    print(traceback.format_exc())
### preloaded_library
import os, subprocess
os.environ.update(LD_PRELOAD='$secret', PYTHONPATH='$folder', BASH_ENV='$secret')
print(subprocess.run(['/bin/sh', '-c', '. $secret'], capture_output=True).stderr)
"""),
]

test_canary, test_contained = battery(ATTACKS)

SHADOWS = (
    "json",
    "numpy",
    "pandas",
    "sklearn",
    "random",
    "os",
    "site",
    "sitecustomize",
    "usercustomize",
    "csv",
    "encodings",
    "codecs",
    "traceback",
    "mappa_env",
    "inside",
    "linecache",
    "threading",
)


@pytest.mark.parametrize("level", LEVELS)
def test_files_cannot_stand_in_for_libraries(level: str, sandboxes: Sandboxes) -> None:
    plant = f"""
import os
for name in {SHADOWS}:
    open(name + '.py', 'w').write("print('GOT', __name__)")
    os.mkdir(name)
    open(name + '/__init__.py', 'w').write("print('GOT', __name__)")
open('x.pth', 'w').write("import os; print('GOT')")
open('helper.py', 'w').write("VALUE = 42")
"""
    use = """
import csv, helper, json, linecache, random, site, threading, traceback
import numpy, pandas, sklearn
print(helper.VALUE, json.dumps(1), numpy.ones(1), pandas.DataFrame().empty)
"""
    with sandboxes[level].open_workspace() as workspace:
        first = sandboxes[level].run(workspace, plant, LIMITS)
        second = sandboxes[level].run(workspace, use, LIMITS)
    assert first.status == "ok", first
    assert (second.status, second.stdout) == ("ok", "42 1 [1.] True\n"), second


DAMAGE = table(
    """
### all_modules_removed
import sys
sys.modules.clear()
### all_builtins_removed
import builtins
for name in list(vars(builtins)):
    if not name.startswith('__'):
        delattr(builtins, name)
### exit_replaced
os._exit = os.kill = os.waitpid = sys.exit = lambda *_: None
### streams_replaced
sys.stdout, sys.stderr, sys.stdin = 1, 2, 3
### error_printer_replaced
traceback.print_exception = sys.excepthook = lambda *a, **k: 1 / 0
raise ValueError
### threading_replaced
import atexit
threading._shutdown = atexit._run_exitfuncs = lambda: 1 / 0
### main_replaced
sys.modules['__main__'] = None
### frames_walked
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
    frame.f_globals.clear()
raise ValueError
### tracer_that_raises
sys.settrace(lambda *_: 1 / 0)
(lambda: None)()
### profile_that_raises
sys.setprofile(lambda *_: 1 / 0)
### audit_that_raises
def refuse(*_): raise RuntimeError
sys.addaudithook(refuse)
### interrupt_pending
import _thread
_thread.interrupt_main()
### memory_overwritten
import ctypes
for offset in range(0, 4096, 8):
    ctypes.memset(id(type) + offset, 65, 8)
### none_overwritten
import ctypes
ctypes.memset(id(None), 0, 16)
x = None
del x
### collector_confused
import gc
gc.freeze(); gc.disable(); gc.set_threshold(1)
for thing in gc.get_objects():
    try:
        thing.clear()
    except BaseException:
        pass
### error_without_end
class Deep(Exception): pass
e = Deep()
e.__context__ = e.__cause__ = e
raise e
### error_chain
e = None
for number in range(2000):
    n = Exception(number)
    n.__context__ = e
    e = n
raise e
### error_that_raises
class Bad(BaseException):
    def __str__(self): raise Bad
    __repr__ = __str__
raise Bad
### error_group
raise BaseExceptionGroup('x', [SystemExit(0), KeyboardInterrupt()])
### error_of_huge_text
raise ValueError('x' * (20 << 20))
### source_that_nests
exec('(' * 500 + ')' * 500)
### source_that_overflows
eval('-' * 100000 + '1')
### source_of_one_line
exec('x = [' + '1,' * 500000 + ']')
""",
    prelude="import os, sys, threading, time, traceback\n",
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", DAMAGE, ids=lambda attack: attack.name)
def test_damage_stays_in_the_action(attack: object, level: str, sandboxes: Sandboxes) -> None:
    """Code may damage its own interpreter in any way; the next action gets another one."""
    with sandboxes[level].open_workspace() as workspace:
        result = sandboxes[level].run(workspace, attack.code, LIMITS)
        assert result.status in ("ok", "error", "killed", "memory", "output_limit"), result
        after = sandboxes[level].run(workspace, "import json\nprint(json.dumps(6 * 7))", LIMITS)
    assert (after.status, after.stdout) == ("ok", "42\n"), after
