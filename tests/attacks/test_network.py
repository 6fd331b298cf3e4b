"""Network: every socket family, the host's ports, name resolution, and access without socket()."""

from __future__ import annotations

from attacks.harness import Run, battery, table


def knocked(run: Run) -> bool:
    """It reached a listener of the host."""
    return bool(run.scene.door.knocked)


ATTACKS = [
    *table(
        """
### connect_tcp
import socket
socket.create_connection(('127.0.0.1', $tcp), 5)
### connect_tcp6
import socket
socket.create_connection(('::1', $tcp6), 5) if $tcp6 else print('ABSENT')
### connect_all_addresses
import socket
for address in ('localhost', '0.0.0.0', '127.1.2.3', '::ffff:127.0.0.1'):
    try:
        socket.create_connection((address, $tcp), 5)
    except OSError:
        pass
### connect_multipath
import socket
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
except OSError as error:
    print('ABSENT' if error.errno in (92, 93) else error)
else:
    s.connect(('127.0.0.1', $tcp))
### connect_by_sending
import socket
socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', $tcp))
### connect_without_waiting
import select, socket
s = socket.socket()
s.setblocking(False)
s.connect_ex(('127.0.0.1', $tcp))
select.select([], [s], [], 5)
### send_udp
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $udp))
### send_udp_vector
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', $udp))
### connect_abstract
import socket
socket.socket(socket.AF_UNIX).connect('\\0$abstract')
### connect_path
import socket
socket.socket(socket.AF_UNIX).connect('$path')
### connect_path_from_folder
import os, socket
os.chdir('$folder')
socket.socket(socket.AF_UNIX).connect('$path'.rsplit('/')[-1])
### connect_by_pair
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.sendto(b'x', '$path.post')
### fetch_page
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:$tcp/', timeout=0.3).read())
### ask_name_server
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(bytes.fromhex('000101000001000000000000076578616d706c6503636f6d0000010001'), ('127.0.0.1', $udp))
### connect_by_program
import subprocess
subprocess.run(['bash', '-c', 'echo > /dev/tcp/127.0.0.1/$tcp'], timeout=9)
""",
        got=knocked,
    ),
    *table("""
### listen_tcp
import socket
s = socket.create_server(('127.0.0.1', 0))
print('GOT', s.getsockname())
### listen_udp
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
print('GOT', s.getsockname())
### listen_abstract
import socket
s = socket.socket(socket.AF_UNIX)
s.bind('\\0$unique')
print('GOT')
### listen_in_workspace
import socket
s = socket.socket(socket.AF_UNIX)
s.bind('door')
print('GOT')
### interfaces
import socket
for number, name in socket.if_nameindex():
    print('GOT', name)
### route_socket
import socket
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 0))
print('GOT')
### ping
import socket
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    try:
        print('GOT', socket.socket(socket.AF_INET, kind, 1))
    except OSError:
        pass
### every_family
import socket
for family in range(1, 50):
    for kind in range(1, 7):
        try:
            print('GOT', socket.socket(family, kind))
        except OSError:
            pass
### every_pair
import socket
for family in range(1, 50):
    for kind in (2, 3, 4):
        try:
            print('GOT', family, kind, socket.socketpair(family, kind))
        except OSError:
            pass
### kernel_crypto
import socket
try:
    s = socket.socket(38, socket.SOCK_SEQPACKET)
    s.bind(('hash', 'sha256'))
    print('GOT')
except OSError as error:
    print('ABSENT' if error.errno in (2, 97) else error)
### virtual_machine_host
import socket
try:
    s = socket.socket(40, socket.SOCK_STREAM)
    s.settimeout(1)
    print('GOT', s.connect_ex((2, 1)))
except OSError as error:
    print('ABSENT' if error.errno == 97 else error)
"""),
]

test_canary, test_contained = battery(ATTACKS)
