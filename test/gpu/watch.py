"""Watches the memory of a GPU, from outside the walls, and processes of this machine.

Its argument is the GPU's UUID. Each line on stdin is the id of a process. Prints a line of JSON, with seconds since the
epoch, whenever the GPU's used bytes have changed, and when one of those processes has ended.
"""

import ctypes
import json
import select
import sys
import time

LOOK_SECONDS = 0.002


class Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def is_alive(pid: int) -> bool:
    try:
        with open("/proc/%d/stat" % pid, encoding="utf8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def say(**words: object) -> None:
    print(json.dumps({"at": time.time(), **words}), flush=True)


def main(uuid: str) -> None:
    library, handle, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), Memory()
    assert library.nvmlInit_v2() == 0
    assert library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) == 0
    followed: set[int] = set()
    used = -1
    while True:
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            followed.add(int(line))
        assert library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
        if memory.used != used:
            used = memory.used
            say(used=used)
        for pid in sorted(followed):
            if not is_alive(pid):
                followed.discard(pid)
                say(gone=pid)


if __name__ == "__main__":
    main(sys.argv[1])
