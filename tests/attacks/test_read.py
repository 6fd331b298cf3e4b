"""Read: the host's files, other workspaces, and secrets in the environment, descriptors and memory."""

from __future__ import annotations

from pathlib import Path

import envs_registry
from attacks.harness import LIBC, Attack, battery, table

REGISTRY = Path(envs_registry.__file__).parent
TASKS = next(REGISTRY.rglob("*.jsonl"), REGISTRY / "__init__.py")

ATTACKS = [
    *table("""
### read_host_file
print(open('$secret').read())
### read_by_dotdot
print(open('../' * 40 + '$secret').read())
### read_by_own_proc_root
print(open('/proc/self/root$secret').read())
### read_by_other_proc_roots
import os
for pid in (1, os.getppid(), $decoy):
    try:
        print(open(f'/proc/{pid}/root$secret').read())
    except OSError:
        pass
### read_through_symlink
import os
os.symlink('$secret', 'x')
print(open('x').read())
### read_through_hardlink
import os
os.link('$secret', 'x')
print(open('x').read())
### read_after_chdir
import os
os.chdir('$folder')
print(open('secret.txt').read())
### read_by_folder_handle
import os
f = os.open('$folder', os.O_PATH)
print(os.read(os.open('secret.txt', os.O_RDONLY, dir_fd=f), 99))
### read_by_sendfile
import os
f = os.open('$secret', os.O_RDONLY)
os.sendfile(1, f, 0, 99)
### read_by_mmap
import mmap
f = open('$secret')
print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:50])
### read_by_other_program
import subprocess
print(subprocess.run(['/bin/cat', '$secret'], capture_output=True).stdout)
### read_by_url
import urllib.request
print(urllib.request.urlopen('file://$secret').read())
### read_by_running_it
import runpy
try:
    runpy.run_path('$secret')
except SyntaxError as error:
    print(error.text)
### read_kernel_log
print('GOT', len(open('/dev/kmsg', 'rb', 0).read(8000)))
### read_kernel_symbols
print('GOT', open('/proc/kallsyms').readline())
### read_boot_id
print('GOT', open('/proc/sys/kernel/random/boot_id').read())
### read_kernel_command_line
print('GOT', open('/proc/cmdline').read())
### read_hardware
import os
print('GOT', os.listdir('/sys/class'))
### read_network_state
import os
for pid in ('self', '1', 'thread-self', os.getppid()):
    for name in ('tcp', 'tcp6', 'udp', 'route', 'arp', 'fib_trie'):
        try:
            with open(f'/proc/{pid}/net/{name}') as file:
                print('GOT' if len(lines := list(file)) > 1 else '', lines)
        except OSError:
            pass
### read_mounts_of_host
for line in open('/proc/self/mountinfo'):
    if line.split()[4] in ('/sys', '/dev/pts', '/run', '/boot', '/home'):
        print('GOT', line)
### list_host_folder
import os
print('GOT', os.listdir('$folder'))
### list_devices
import os
fine = {'null', 'zero', 'full', 'random', 'urandom', 'shm', 'fd', 'stdin', 'stdout', 'stderr'}
for name in set(os.listdir('/dev')) - fine:
    print('GOT', name)
### find_neighbours
import os
for top in ('/tmp', '/var/tmp', '/dev/shm', '/run', '/mnt', '/srv', '..', '../..', '$folder/..'):
    for path, folders, files in os.walk(top):
        if 'secret.txt' in files:
            print('GOT', path)
        if path.count('/') > 4:
            folders.clear()
### stat_host_file
import os
if os.stat('$secret').st_size == $size:
    print('GOT')
### access_host_file
import os
if os.access('$secret', os.R_OK):
    print('GOT')
### readlink_host
import os
print(os.readlink('$link'))
### list_attributes_of_host_file
import os
print('GOT', os.listxattr('$secret'))
### size_of_host_disk
import os
if os.statvfs('$folder').f_blocks:
    print('GOT')
### chdir_to_host_folder
import os
os.chdir('$folder')
print('GOT', os.getcwd())
### host_name
import os
if os.uname().nodename == '$host':
    print('GOT')
### environment
import os
print(dict(os.environ))
### environment_in_proc
print(open('/proc/self/environ', 'rb').read())
### environments_of_others
import os
for pid in [*os.listdir('/proc'), '$decoy']:
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            print(open(f'/proc/{pid}/environ', 'rb').read())
        except OSError:
            pass
### command_lines_of_others
import os
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        print('GOT', pid, open(f'/proc/{pid}/cmdline').read())
### inherited_descriptors
import os
for fd in range(3, 4096):
    try:
        os.fstat(fd)
    except OSError:
        continue
    print('GOT', fd)
### inherited_folders
import os
for fd in range(4096):
    try:
        file = os.open('../' * 30 + '$secret'[1:], os.O_RDONLY, dir_fd=fd)
    except OSError:
        continue
    print(os.read(file, 50))
"""),
    Attack(
        "environment_of_libc",
        LIBC
        + """
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, 'environ')
i = 0
while environ[i]:
    print(environ[i])
    i += 1
""",
    ),
    Attack(
        "environment_on_the_stack",
        LIBC
        + """
environ = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, 'environ')
reader, writer = os.pipe()
page = ctypes.addressof(ctypes.c_char.from_address(environ[0])) & ~4095
for page in range(page - 65536, page + 65536, 4096):
    if _libc.write(writer, ctypes.c_void_p(page), 4096) == 4096:
        print(os.read(reader, 4096))
""",
    ),
    Attack("tasks_and_their_answers", f"if open({str(TASKS)!r}, 'rb').read(100): print('GOT')"),
    *table(
        f"""
### sources_of_the_project
import sys
for module in list(sys.modules.values()):
    path = getattr(module, '__file__', None) or ''
    if path.startswith({str(REGISTRY.parent / "mappa_env")!r}) and open(path).read(9):
        print('GOT', path)
### sockets_of_the_server
import gc, os, socket
for thing in gc.get_objects():
    if isinstance(thing, socket.socket) and os.path.exists('/proc/self/fd/%d' % thing.fileno()):
        print('GOT', thing)
for fd in (0, *range(3, 4096)):  # 1 and 2 are sockets to the host's capture: test_output.py
    try:
        print('GOT', socket.socket(fileno=os.dup(fd)))
    except OSError:
        pass
""",
        unproven="no server forks the unconfined run",
    ),
    Attack(
        "memory_of_earlier_actions",
        "plant = 'PLANTED-' + '$token'\nprint(len(plant))",
        then=LIBC
        + """
import re
found, (reader, writer) = set(), os.pipe()
pattern = re.compile(b"PLA" + b"NTED-([0-9a-f]{24})")
def look(start, end):
    for page in range(start & ~4095, end, 4096):  # write() tells whether memory is there, without a crash
        if _libc.write(writer, ctypes.c_void_p(page), 4096) == 4096:
            found.update(pattern.findall(os.read(reader, 4096)))
try:
    for line in open("/proc/self/maps"):
        span, rights, *_ = line.split()
        start, end = (int(x, 16) for x in span.split("-"))
        if rights.startswith("rw"):
            look(start, min(end, start + (1 << 26)))
except OSError:
    _libc.sbrk.restype = ctypes.c_void_p
    end = _libc.sbrk(0)
    look(end - (1 << 26), end)
    look(id(found) - (1 << 21), id(found) + (1 << 21))
print(*(word.decode() for word in found))
""",
        unproven="two interpreters share no memory; only a forking server could leak it",
    ),
]

test_canary, test_contained = battery(ATTACKS)
