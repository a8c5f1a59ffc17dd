"""A disk whose power can be cut.

    python3 power-cut.py --seed N --after N [--share 0.5] DIRECTORY -- COMMAND...

Runs COMMAND and watches what it writes to SQLite's files in DIRECTORY: a seccomp filter hands every such
system call to this process before it is made. After so many of them the power goes: the command is killed, and
its files become what a disk may hold then. What was covered by an fsync is there; of everything later each
sector is there or not, by chance (a share of them), and the same goes for lengths and for files made or removed.
It needs no compiler and no privileges, only Linux 5.5 and a container that allows seccomp; without, it exits with 3.

The last line on stdout says in JSON what was lost.
"""

import argparse
import ctypes
import fcntl
import json
import os
import platform
import random
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

SECTOR = 512
NAMES = ("millrace.db", "millrace.db-wal", "millrace.db-journal")
CANNOT_WATCH = 3

# Audit number of the architecture, seccomp's own number, and those of the calls to watch.
MACHINES = {
    "x86_64": (
        0xC000003E,
        317,
        {18: "pwrite", 77: "truncate", 74: "sync", 75: "sync", 87: "unlink", 263: "unlinkat"},
    ),
    "aarch64": (0xC00000B7, 277, {68: "pwrite", 46: "truncate", 82: "sync", 83: "sync", 35: "unlinkat"}),
}

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER = 1
NEW_LISTENER = 8
RET_ALLOW = 0x7FFF0000
RET_USER_NOTIF = 0x7FC00000
RECEIVE = 0xC0502100
ANSWER = 0xC0182101
GO_ON = 1
NOTICE = struct.Struct("=QIIiIQ6Q")
REPLY = struct.Struct("=QqiI")


class File:
    """What is on the disk for certain, and what was asked of it since."""

    def __init__(self, content=b""):
        self.durable = bytearray(content)
        self.unsynced = []

    def sync(self):
        for change in self.unsynced:
            apply(self.durable, *change)
        self.unsynced = []

    def now(self):
        image = bytearray(self.durable)
        for change in self.unsynced:
            apply(image, *change)
        return image

    def after_cut(self, chance, share):
        """What may be left, and how many bytes of changes are not."""
        image = bytearray(self.durable)
        dropped = 0
        for offset, data in self.unsynced:
            if data is None:
                if chance.random() < share:
                    apply(image, offset, None)
                continue
            for start, piece in sectors(offset, data):
                if chance.random() < share:
                    apply(image, start, piece)
                else:
                    dropped += len(piece)
        return image, dropped


def apply(image, offset, data):
    """Writes data at an offset; without data the offset is the new length."""
    end = offset if data is None else offset + len(data)
    if len(image) < end:
        image.extend(bytes(end - len(image)))
    if data is None:
        del image[end:]
    else:
        image[offset:end] = data


def sectors(offset, data):
    at = 0
    while at < len(data):
        step = SECTOR - (offset + at) % SECTOR
        yield offset + at, data[at : at + step]
        at += step


class Disk:
    """The watched files, as they are and as they are for certain."""

    def __init__(self, directory):
        self.directory = directory
        self.files = {}
        self.names = {}
        self.syncs = dict.fromkeys(NAMES, 0)
        for name in NAMES:
            path = os.path.join(directory, name)
            if os.path.exists(path):
                with open(path, "rb") as content:
                    self.names[name] = self.files[inode(path)] = File(content.read())
        self.durable_names = dict(self.names)

    def name_of(self, path):
        folder, name = os.path.split(path)
        return name if folder == self.directory and name in NAMES else None

    def change(self, call, pid, arguments):
        """What a call that is about to be made will do to the watched files; None if nothing."""
        if call in ("unlink", "unlinkat"):
            path = text_at(pid, arguments[0 if call == "unlink" else 1])
            name = self.name_of(path)
            return None if name is None else lambda: self.unlink(name, inode(path))
        link = f"/proc/{pid}/fd/{arguments[0] & 0xFFFFFFFF}"
        path = os.readlink(link)
        if call == "sync" and path == self.directory:
            return self.sync_names
        name = self.name_of(path)
        if name is None:
            return None
        file = self.files.get(inode(link))
        if file is None:
            file = self.names[name] = self.files[inode(link)] = File()
        if call == "sync":
            self.syncs[name] += 1
            return file.sync
        data = None if call == "truncate" else memory_at(pid, arguments[1], arguments[2])
        offset = arguments[1] if data is None else arguments[3]
        return lambda: file.unsynced.append((offset, data))

    def unlink(self, name, number):
        self.names.pop(name, None)
        self.files.pop(number, None)

    def sync_names(self):
        self.durable_names = dict(self.names)

    def check(self):
        """The files must hold exactly what was seen, or something was written behind our back."""
        for name, file in self.names.items():
            with open(os.path.join(self.directory, name), "rb") as content:
                if content.read() != file.now():
                    raise SystemExit(f"{name} holds what was not seen being written")

    def cut(self, chance, share):
        dropped = 0
        for name in NAMES:
            path = os.path.join(self.directory, name)
            names = chance.choice((self.durable_names, self.names))
            file = names.get(name)
            if file is None:
                if os.path.exists(path):
                    dropped += os.path.getsize(path)
                    os.unlink(path)
                continue
            image, lost = file.after_cut(chance, share)
            dropped += lost
            with open(path, "wb") as content:
                content.write(image)
        shared = os.path.join(self.directory, "millrace.db-shm")
        if os.path.exists(shared):
            os.unlink(shared)
        return {"dropped": dropped, "share": share, "syncs": self.syncs}


def inode(path):
    found = os.stat(path)
    return found.st_dev, found.st_ino


def memory_at(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)


def text_at(pid, address):
    text = b""
    while b"\0" not in text:
        # Never across a page: the next one may not be there.
        text += memory_at(pid, address + len(text), 4096 - (address + len(text)) % 4096)
    return os.fsdecode(text[: text.index(b"\0")])


def install_filter(libc, machine):
    """Hands the watched calls of this process and all it starts to the holder of the descriptor returned."""
    audit, seccomp, calls = machine
    # Load the architecture; allow other ones; load the number; stop at each watched one; allow the rest.
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, audit), (0x06, 0, 0, RET_ALLOW), (0x20, 0, 0, 0)]
    for place, number in enumerate(calls):
        code.append((0x15, len(calls) - place, 0, number))
    code += [(0x06, 0, 0, RET_ALLOW), (0x06, 0, 0, RET_USER_NOTIF)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(program)))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return -1
    return libc.syscall(seccomp, SET_MODE_FILTER, NEW_LISTENER, header)


def start(command, machine):
    """The command's process, and the descriptor its calls arrive at."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        listener = install_filter(libc, machine) if os.getppid() == parent else -1
        if listener < 0:
            theirs.send(os.strerror(ctypes.get_errno()).encode())
            os._exit(CANNOT_WATCH)
        socket.send_fds(theirs, [b"ok"], [listener])
        os.execvp(command[0], command)
    theirs.close()
    word, descriptors, _, _ = socket.recv_fds(ours, 200, 1)
    if not descriptors:
        cannot_watch(word.decode() or "the filter was refused")
    return pid, descriptors[0]


def cannot_watch(reason) -> NoReturn:
    print(f"cannot watch system calls here: {reason}", file=sys.stderr)
    sys.exit(CANNOT_WATCH)


def watch(listener, pid, calls, disk, after):
    """Lets calls through until the power goes; returns, with whether it did, when nobody is left to make any."""
    poll = select.poll()
    poll.register(listener)
    left = after
    while True:
        for _, events in poll.poll():
            if not events & select.POLLIN:
                return left == 0
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(listener, RECEIVE, notice)
            number, caller, _, call, _, _, *arguments = NOTICE.unpack(notice)
            try:
                change = disk.change(calls[call], caller, arguments) if left > 0 else None
                if change:
                    left -= 1
                    if left == 0:
                        os.kill(pid, signal.SIGKILL)
                        continue  # This one is not made any more.
                    change()
            except PermissionError as refused:
                os.kill(pid, signal.SIGKILL)
                cannot_watch(f"memory cannot be read: {refused}")
            fcntl.ioctl(listener, ANSWER, REPLY.pack(number, 0, 0, GO_ON))
        except (FileNotFoundError, ProcessLookupError):
            continue  # The caller is gone.


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--after", type=int, required=True)
    parser.add_argument("--share", type=float)
    parser.add_argument("directory")
    parser.add_argument("command", nargs="+")
    wanted = parser.parse_args()
    machine = MACHINES.get(platform.machine())
    if machine is None:
        cannot_watch(f"not on {platform.machine()}")
    disk = Disk(os.path.realpath(wanted.directory))
    pid, listener = start(wanted.command, machine)
    is_cut = watch(listener, pid, machine[2], disk, wanted.after)
    os.waitpid(pid, 0)
    if not is_cut:
        raise SystemExit("the command ended before the power was cut")
    disk.check()
    chance = random.Random(wanted.seed)
    share = chance.choice((0, 0.1, 0.5, 0.9, 1)) if wanted.share is None else wanted.share
    print(json.dumps(disk.cut(chance, share)), flush=True)


main()
