"""Puts a folder and a link to another one in the place of each other, as fast as it can, until its stdin ends.

Runs as the user it is given, if any: as an app of that user would.
"""

import ctypes
import os
import platform
import select
import sys

_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}[platform.machine()]
_HERE, _EXCHANGE = -100, 2
_libc = ctypes.CDLL(None, use_errno=True)

place, elsewhere, user = sys.argv[1:]
os.chdir(os.path.dirname(place))
if user != "own":
    os.setgroups([])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
name = os.path.basename(place)
aside = name + "-aside"
os.symlink(elsewhere, aside)
print("ready", flush=True)
poll = select.poll()
poll.register(0, select.POLLIN)
while not poll.poll(0):
    for _ in range(100):
        if _libc.syscall(_RENAMEAT2, _HERE, name.encode(), _HERE, aside.encode(), _EXCHANGE) != 0:
            sys.exit("cannot swap: errno %d" % ctypes.get_errno())
