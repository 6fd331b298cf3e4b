"""Write: files, links and attributes outside the workspace, and the runtime that all actions share."""

from __future__ import annotations

from attacks.harness import LIBC, Attack, battery, table, touched

ATTACKS = [
    *table(
        """
### write_new_file
open('$drop/$unique', 'w').write('here')
### write_existing_file
open('$victim', 'r+').write('changed')
### write_append
open('$victim', 'a').write('more')
### write_truncate
import os
os.truncate('$victim', 2)
### write_open_truncate
open('$victim', 'w')
### write_by_mmap
import mmap
f = open('$victim', 'r+b')
mmap.mmap(f.fileno(), 0)[:3] = b'xxx'
### write_by_dotdot
open('../' * 40 + '$drop/$unique', 'w').write('here')
### write_by_folder_handle
import os
f = os.open('$drop', os.O_PATH)
os.open('$unique', os.O_CREAT | os.O_WRONLY, dir_fd=f)
### write_by_own_proc_root
open('/proc/self/root$drop/$unique', 'w')
### write_nameless_then_link
import os
f = os.open('$drop', os.O_TMPFILE | os.O_RDWR)
os.link(f'/proc/self/fd/{f}', '$drop/$unique', src_dir_fd=f, follow_symlinks=True)
### move_file_out
import os
open('x', 'w')
os.rename('x', '$drop/$unique')
### move_file_in
import os
os.rename('$victim', 'x')
### link_file_out
import os
open('x', 'w')
os.link('x', '$drop/$unique')
### symlink_out
import os
os.symlink('/etc', '$drop/$unique')
### make_folder
import os
os.mkdir('$drop/$unique')
### make_fifo
import os
os.mkfifo('$drop/$unique')
### delete_file
import os
os.unlink('$victim')
### delete_folder
import os
os.rmdir('$empty')
### delete_all
import shutil
shutil.rmtree('$drop', ignore_errors=True)
### change_mode
import os
os.chmod('$victim', 0o4777)
### change_mode_of_folder
import os
os.chmod('$drop', 0o700)
### change_mode_by_descriptor
import os
os.fchmod(os.open('$victim', os.O_RDONLY), 0o600)
### change_owner
import os
os.chown('$victim', -1, 0)
os.chown('$victim', 12345, -1)
### change_times
import os
os.utime('$victim', (1, 1))
### change_attributes
import os
os.setxattr('$victim', 'user.mark', b'1')
### write_by_other_program
import subprocess
subprocess.run(['/bin/sh', '-c', 'echo more >> $victim'])
### write_by_sqlite
import sqlite3
sqlite3.connect('$drop/$unique').execute('create table t (x)').connection.commit()
""",
        got=touched,
    ),
    Attack(
        "exchange_files",
        LIBC
        + """
open('x', 'w').write('planted')
syscall($nr_renameat2, -100, b'x', -100, b'$victim', 2)
""",
        got=touched,
    ),
    Attack("write_raw", LIBC + "_libc.write(_libc.open(b'$victim', 1), b'changed', 7)", got=touched),
    *table(
        """
### leave_in_tmp
import os
for folder in ('/tmp', '/var/tmp', '/dev/shm', '/run', '/home', '/', '/mnt', '..'):
    try:
        open(folder + '/$unique', 'w').write('here')
    except OSError:
        pass
""",
        got=lambda run: run.scene.left_behind(),
    ),
    *table("""
### runtime_library
import os
open(os.__file__, 'ab')
print('GOT')
### runtime_folder
import os
folder = os.path.dirname(os.__file__)
os.mkdir(folder + '/$unique')
print('GOT')
os.rmdir(folder + '/$unique')
### runtime_packages
import pathlib, sys
for path in [sys.prefix, *sys.path]:
    for folder in pathlib.Path(path).glob('**/site-packages'):
        (folder / '$unique.pth').touch()
        print('GOT')
        (folder / '$unique.pth').unlink()
        break
### runtime_bytecode
import importlib.util, os
open(importlib.util.cache_from_source(os.__file__), 'ab')
print('GOT')
### runtime_mode
import os
os.chmod(os.__file__, os.stat(os.__file__).st_mode & 0o7777)
print('GOT')
### runtime_times
import os
info = os.stat(os.__file__)
os.utime(os.__file__, ns=(info.st_atime_ns, info.st_mtime_ns))
print('GOT')
### runtime_link
import os
here = os.path.dirname(os.__file__)
os.link(os.__file__, here + '/$unique')
os.unlink(here + '/$unique')
print('GOT')
### device_times
import os
os.utime('/dev/null')
print('GOT')
### device_mode
import os
os.chmod('/dev/null', 0o666)
print('GOT')
### system_programs
import os
for path in ('/usr/bin/env', '/usr/bin/yes', '/bin/true', '/etc/ld.so.cache', '/etc/passwd', '/etc/hosts'):
    try:
        open(path, 'r+b')
        print('GOT', path)
    except OSError:
        pass
### kernel_settings
open('/proc/sys/kernel/core_pattern', 'r+')
print('GOT')
### own_out_of_memory_score
for value in ('1000', '0'):
    with open('/proc/self/oom_score_adj', 'w') as file:
        file.write(value)
if int(open('/proc/self/oom_score_adj').read()) < 1000:
    print('GOT')
### devices
import os
for name in set(os.listdir('/dev')) - {'null', 'zero', 'full', 'random', 'urandom', 'shm'}:
    try:
        os.close(os.open('/dev/' + name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
        print('GOT', name)
        break
    except OSError:
        pass
"""),
]

test_canary, test_contained = battery(ATTACKS)
