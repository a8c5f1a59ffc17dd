"""Reads the GPUs of this machine through NVML and answers the service: a line of JSON for each reading.

It is a process of its own because NVML can hang, and crash, when a GPU fails. It runs outside all walls, and holds no
data of any app.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import time

from millrace_worker import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What NVML's functions return.
_SUCCESS = 0
_INSUFFICIENT_SIZE = 7
_TIMEOUT = 10
_FUNCTION_NOT_FOUND = 13
_GPU_IS_LOST = 15
_RESET_REQUIRED = 16

_NAME_BYTES = 96
_VERSION_BYTES = 80
_UNAVAILABLE = 2**64 - 1
_TEMPERATURE_OF_GPU = 0
_UNCORRECTED = 1
_SINCE_RESET = 0
#: Limits that the service checks too.
_MAX_GPUS = 64
_MAX_INSTANCES = 16
_MAX_PROCESSES = 1024
_TEXT_CHARS = 200

#: `nvmlEventTypeXidCriticalError`.
_XID_EVENT = 8
_EVENT_WAIT_MS = 60_000
#: After an error of the events themselves; else the loop would spin.
_EVENT_PAUSE_SECONDS = 1

#: XID errors after which NVIDIA's catalog of them asks for a reset of the GPU or a reboot: 46 (it stopped processing),
#: 48 (uncorrectable ECC error), 62 and 110 (its controller halted, security fault), 64 (bad memory could not be
#: retired), 74 and 136 (NVLink), 79 (fell off the bus), 95 and 140 (uncontained or unrecovered memory error), 119 and
#: 120 (its system processor), 143 (not initialized), 158 (fatal timeout).
#:
#: Not among them: 13, 31, 43, 45, 68 and 109, which the code of an app can cause; 63, 92 and 94, after which the
#: catalog lets apps go on. If one of these is worse than usual, drivers from 570 on say so by their recovery action.
_FATAL_XIDS = frozenset((46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 158))
#: The driver's recovery action has changed: the next reading shows it.
_RECOVERY_ACTION_CHANGED = 154

#: `NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`, from driver 570 on.
_RECOVERY_ACTION = 230
#: Not 4, "drain and reset": work that is not affected may go on, and a reset would end it.
_ACTION_FAULTS = {1: "reset", 2: "reboot", 3: "drain", 5: "reset"}


class _MemoryV2(ctypes.Structure):
    """Counts what the driver reserves apart from what is used."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Pci(ctypes.Structure):
    """`numbers` has the parts of the id, and the ids of the product."""

    _fields_ = [("legacy_id", ctypes.c_char * 16), ("numbers", ctypes.c_uint * 5), ("id", ctypes.c_char * 32)]


class _Attributes(ctypes.Structure):
    """Of a MIG instance: the last two of `numbers` are its slices of the GPU and of its processors."""

    _fields_ = [("numbers", ctypes.c_uint * 8), ("memory_mb", ctypes.c_ulonglong)]


class _FieldValue(ctypes.Structure):
    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Failed(Exception):
    """NVML cannot be used at all. The message is for operators."""


class Nvml:
    """The functions of libnvidia-ml that are needed here. What a driver or GPU does not tell is None."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise Failed("%s cannot be loaded: %s" % (library, error)) from None
        code = self._call("nvmlInit_v2")
        if code != _SUCCESS:
            raise Failed("NVML does not start: %s" % self.explain(code))
        #: Errors of the GPU that is being read.
        self.errors: set[int] = set()

    def _call(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return _FUNCTION_NOT_FOUND  # The driver is older than the function.
        return int(function(*arguments))

    def _ask(self, name: str, *arguments: Any) -> bool:
        code = self._call(name, *arguments)
        if code in (_GPU_IS_LOST, _RESET_REQUIRED):
            self.errors.add(code)
        return code == _SUCCESS

    def explain(self, code: int) -> str:
        try:
            describe = self._library.nvmlErrorString
            describe.restype = ctypes.c_char_p
            text = describe(code)
        except AttributeError:
            text = None
        return (text or b"error %d" % code).decode("ascii", "replace")[:_TEXT_CHARS]

    def driver(self) -> str | None:
        text = ctypes.create_string_buffer(_VERSION_BYTES)
        found = self._ask("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_VERSION_BYTES))
        return _text(text.value) if found else None

    def count(self) -> int:
        number = ctypes.c_uint()
        code = self._call("nvmlDeviceGetCount_v2", ctypes.byref(number))
        if code != _SUCCESS:
            raise Failed("NVML does not list GPUs: %s" % self.explain(code))
        return min(number.value, _MAX_GPUS)

    def device(self, index: int) -> tuple[ctypes.c_void_p, int]:
        """The handle, and what NVML returned: without success the handle is not usable."""
        handle = ctypes.c_void_p()
        return handle, self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))

    def instances(self, device: ctypes.c_void_p) -> list[ctypes.c_void_p] | None:
        """The MIG instances; None if MIG is off."""
        current, pending, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        if not self._ask("nvmlDeviceGetMigMode", device, ctypes.byref(current), ctypes.byref(pending)):
            return None
        if current.value != 1:
            return None
        if not self._ask("nvmlDeviceGetMaxMigDeviceCount", device, ctypes.byref(most)):
            return []
        found: list[ctypes.c_void_p] = []
        for index in range(min(most.value, _MAX_INSTANCES)):
            handle = ctypes.c_void_p()
            # Places without an instance are not found.
            if self._ask("nvmlDeviceGetMigDeviceHandleByIndex", device, ctypes.c_uint(index), ctypes.byref(handle)):
                found.append(handle)
        return found

    def text(self, name: str, device: ctypes.c_void_p) -> str | None:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        return _text(text.value) if self._ask(name, device, text, ctypes.c_uint(_NAME_BYTES)) else None

    def number(self, name: str, device: ctypes.c_void_p) -> int | None:
        number = ctypes.c_uint()
        return number.value if self._ask(name, device, ctypes.byref(number)) else None

    def bus_id(self, device: ctypes.c_void_p) -> str | None:
        pci = _Pci()
        return _text(pci.id) if self._ask("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(pci)) else None

    def memory(self, device: ctypes.c_void_p) -> tuple[int, int, int] | None:
        """Total, used and free bytes."""
        new = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if self._ask("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(new)):
            return new.total, new.used, new.free
        old = (ctypes.c_ulonglong * 3)()
        found = self._ask("nvmlDeviceGetMemoryInfo", device, old)
        return (old[0], old[2], old[1]) if found else None

    def utilization(self, device: ctypes.c_void_p) -> int | None:
        rates = (ctypes.c_uint * 2)()
        return rates[0] if self._ask("nvmlDeviceGetUtilizationRates", device, rates) else None

    def celsius(self, device: ctypes.c_void_p) -> int | None:
        number = ctypes.c_uint()
        sensor = ctypes.c_uint(_TEMPERATURE_OF_GPU)
        return number.value if self._ask("nvmlDeviceGetTemperature", device, sensor, ctypes.byref(number)) else None

    def attributes(self, instance: ctypes.c_void_p) -> dict[str, int] | None:
        found = _Attributes()
        if not self._ask("nvmlDeviceGetAttributes_v2", instance, ctypes.byref(found)):
            return None
        return {"gpu": found.numbers[6], "compute": found.numbers[7], "memory_mb": found.memory_mb}

    def processes(self, device: ctypes.c_void_p) -> list[dict[str, int | None]] | None:
        """The processes with memory of it, each once; None if the driver does not list them."""
        lists = [self._processes(kind, device) for kind in ("Compute", "Graphics", "MPSCompute")]
        if lists[0] is None:
            return None
        used: dict[int, int | None] = {}
        for pid, amount in (each for one in lists for each in one or []):
            # A process that computes and draws is on two lists, with the same memory.
            used[pid] = max(used.get(pid) or 0, amount) if amount is not None else used.get(pid)
        return [{"pid": pid, "used_bytes": amount} for pid, amount in list(used.items())[:_MAX_PROCESSES]]

    def _processes(self, kind: str, device: ctypes.c_void_p) -> list[tuple[int, int | None]] | None:
        for version in ("_v3", "_v2", ""):
            name = "nvmlDeviceGet%sRunningProcesses%s" % (kind, version)
            count = ctypes.c_uint(_MAX_PROCESSES)
            # None of the versions has a longer entry.
            space = (ctypes.c_ubyte * (32 * _MAX_PROCESSES)).from_buffer_copy(b"\xa5" * (32 * _MAX_PROCESSES))
            code = self._call(name, device, ctypes.byref(count), space)
            if code == _FUNCTION_NOT_FOUND:
                continue
            if code not in (_SUCCESS, _INSUFFICIENT_SIZE):
                return None
            return _entries(bytes(space), min(count.value, _MAX_PROCESSES)) if code == _SUCCESS else None
        return None

    def fault(self, device: ctypes.c_void_p) -> str | None:
        """Why the GPU must not be used, after all else of it has been read."""
        asked = _FieldValue(field=_RECOVERY_ACTION)
        if self._ask("nvmlDeviceGetFieldValues", device, ctypes.c_int(1), ctypes.byref(asked)) and asked.result == 0:
            # An unsigned int of 32 bits; what is above it is not set.
            action = _ACTION_FAULTS.get(asked.value & 0xFFFFFFFF)
            if action is not None:
                return action
        memory_fault = self._memory_fault(device)
        if _GPU_IS_LOST in self.errors:
            return "lost"
        return "reset" if _RESET_REQUIRED in self.errors else memory_fault

    def _memory_fault(self, device: ctypes.c_void_p) -> str | None:
        rows = [ctypes.c_uint() for _ in range(4)]
        if self._ask("nvmlDeviceGetRemappedRows", device, *map(ctypes.byref, rows)):
            # From Ampere on an error is contained, and its row replaced at the next reset, until none are left.
            return "rows" if rows[3].value == 1 else None
        if self.number("nvmlDeviceGetRetiredPagesPendingStatus", device) == 1:
            return "pages"
        errors = ctypes.c_ulonglong()
        kind, since = ctypes.c_uint(_UNCORRECTED), ctypes.c_uint(_SINCE_RESET)
        found = self._ask("nvmlDeviceGetTotalEccErrors", device, kind, since, ctypes.byref(errors))
        return "ecc" if found and errors.value > 0 else None

    def watch(self) -> tuple[ctypes.c_void_p, dict[int | None, str]]:
        """A set of XID events, and the UUIDs of the GPUs that report them, by their handles."""
        events, kinds = ctypes.c_void_p(), ctypes.c_ulonglong(_XID_EVENT)
        watched: dict[int | None, str] = {}
        if self._ask("nvmlEventSetCreate", ctypes.byref(events)):
            for index in range(self.count()):
                device, code = self.device(index)
                uuid = self.text("nvmlDeviceGetUUID", device) if code == _SUCCESS else None
                if uuid is not None and self._ask("nvmlDeviceRegisterEvents", device, kinds, events):
                    watched[device.value] = uuid
        return events, watched

    def wait(self, events: ctypes.c_void_p) -> tuple[int, _Event]:
        event = _Event()
        wait = ctypes.c_uint(_EVENT_WAIT_MS)
        return self._call("nvmlEventSetWait_v2", events, ctypes.byref(event), wait), event


def _text(text: bytes) -> str | None:
    """Printable text of the driver."""
    plain = "".join(each for each in text.decode("ascii", "ignore") if " " <= each <= "~").strip()
    return plain or None


def _entries(space: bytes, count: int) -> list[tuple[int, int | None]] | None:
    """The entries of a list of processes. Their length differs between drivers that have the function under one name:
    24 bytes, or 16, or, from 535.43 to 535.86, 32. All begin with the process's id and its memory, and the last byte
    that was written tells the length. None if it is none of these.
    """
    if count == 0:
        return []
    size, rest = divmod(len(space.rstrip(b"\xa5")), count)
    if rest != 0 or size not in (16, 24, 32):
        return None
    found: list[tuple[int, int | None]] = []
    for start in range(0, count * size, size):
        pid = int.from_bytes(space[start : start + 4], sys.byteorder)
        used = int.from_bytes(space[start + 8 : start + 16], sys.byteorder)
        found.append((pid, None if used == _UNAVAILABLE else used))
    return found


class Reader:
    """Reads all GPUs; the files of MIG instances come from the driver's folder of capabilities."""

    def __init__(self, nvml: Nvml, capabilities: str) -> None:
        self._nvml = nvml
        self._capabilities = capabilities

    def read(self) -> dict[str, Any]:
        gpus: list[dict[str, Any]] = []
        unread: list[str] = []
        for index in range(self._nvml.count()):
            device, code = self._nvml.device(index)
            self._nvml.errors.clear()
            gpu = self._gpu(index, device) if code == _SUCCESS else None
            if gpu is None:
                why = "it has no UUID" if code == _SUCCESS else self._nvml.explain(code)
                unread.append("GPU %d: %s" % (index, why))
            else:
                gpus.append(gpu)
        return {"driver": self._nvml.driver(), "gpus": gpus, "unread": unread}

    def _gpu(self, index: int, device: ctypes.c_void_p) -> dict[str, Any] | None:
        nvml = self._nvml
        uuid = nvml.text("nvmlDeviceGetUUID", device)
        if uuid is None:
            return None
        minor = nvml.number("nvmlDeviceGetMinorNumber", device)
        instances = nvml.instances(device)
        found = {
            "uuid": uuid,
            "index": index,
            "name": nvml.text("nvmlDeviceGetName", device) or "GPU",
            "bus_id": nvml.bus_id(device) or "",
            "minor": minor,
            "instances": None if instances is None else self._instances(instances, minor),
            **self._state(device),
        }
        watts = nvml.number("nvmlDeviceGetPowerUsage", device)
        found["watts"] = None if watts is None else watts / 1000
        found["celsius"] = nvml.celsius(device)
        return {**found, "fault": nvml.fault(device)}

    def _instances(self, instances: list[ctypes.c_void_p], minor: int | None) -> list[dict[str, Any]]:
        uuids = [self._nvml.text("nvmlDeviceGetUUID", each) for each in instances]
        return [self._instance(uuid, each, minor) for uuid, each in zip(uuids, instances) if uuid is not None]

    def _instance(self, uuid: str, instance: ctypes.c_void_p, minor: int | None) -> dict[str, Any]:
        nvml = self._nvml
        gpu_instance = nvml.number("nvmlDeviceGetGpuInstanceId", instance)
        compute_instance = nvml.number("nvmlDeviceGetComputeInstanceId", instance)
        return {
            "uuid": uuid,
            "name": nvml.text("nvmlDeviceGetName", instance) or "",
            "caps": self._caps(minor, gpu_instance, compute_instance),
            "slices": nvml.attributes(instance),
            **self._state(instance),
        }

    def _state(self, device: ctypes.c_void_p) -> dict[str, Any]:
        memory = self._nvml.memory(device)
        total, used, free = memory if memory is not None else (None, None, None)
        return {
            "total_bytes": total,
            "used_bytes": used,
            "free_bytes": free,
            "utilization": self._nvml.utilization(device),
            "processes": self._nvml.processes(device),
        }

    def _caps(self, minor: int | None, gpu_instance: int | None, compute_instance: int | None) -> list[int] | None:
        """The numbers of the files below /dev/nvidia-caps that open an instance; None if they are unknown."""
        below = "gi%s" % gpu_instance
        caps: list[int] = []
        for folder in (below, "%s/ci%s" % (below, compute_instance)):
            try:
                path = "%s/gpu%s/mig/%s/access" % (self._capabilities, minor, folder)
                with open(path, encoding="ascii") as listing:
                    values = dict(line.split(":", 1) for line in listing.read(4096).splitlines() if ":" in line)
                caps.append(int(values["DeviceFileMinor"]))
            except (OSError, ValueError, KeyError):
                return None
        return caps


class Xids:
    """The XID errors that a thread waits for: NVML knows no other way."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._events, self._known = nvml.watch()
        self._lock = threading.Lock()
        #: Each once, however often an app causes it.
        self._heard: set[tuple[str, int]] = set()
        self.woken, self._wake = socket.socketpair()
        if self._known:
            threading.Thread(target=self._run, daemon=True).start()

    def take(self) -> list[tuple[str, int]]:
        self.woken.recv(4096)
        with self._lock:
            heard, self._heard = sorted(self._heard), set()
        return heard

    def _run(self) -> None:
        while True:
            code, event = self._nvml.wait(self._events)
            if code == _SUCCESS:
                self._hear(self._known.get(event.device), int(event.data))
            elif code != _TIMEOUT:
                time.sleep(_EVENT_PAUSE_SECONDS)

    def _hear(self, uuid: str | None, xid: int) -> None:
        if uuid is None or (xid not in _FATAL_XIDS and xid != _RECOVERY_ACTION_CHANGED):
            return
        with self._lock:
            self._heard.add((uuid, xid))
        self._wake.send(b"\0")


def _say(word: str, value: Any) -> None:
    sys.stdout.write(json.dumps({word: value}) + "\n")
    sys.stdout.flush()


class _Lines:
    """What the service writes, in whole lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._whole: list[bytes] = []
        self.is_over = False

    def receive(self) -> None:
        data = os.read(0, 65536)
        self.is_over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._whole += lines

    def next(self) -> bytes | None:
        return self._whole.pop(0) if self._whole else None


def _serve(order: dict[str, Any], lines: _Lines) -> None:
    """Answers each `look` with a reading, until the service is gone."""
    nvml = Nvml(str(order["library"]))
    reader = Reader(nvml, str(order["capabilities"]))
    xids = Xids(nvml)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(xids.woken, select.POLLIN)
    while not lines.is_over:
        line = lines.next()
        if line is not None:
            _say("seen", {"id": int(json.loads(line)["look"]), **reader.read()})
            continue
        for descriptor, _ in poll.poll():
            if descriptor == 0:
                lines.receive()
                continue
            for uuid, xid in xids.take():
                _say("xid", {"uuid": uuid, "code": xid, "is_fatal": xid in _FATAL_XIDS})


def main() -> None:
    linux.die_with_parent(os.getppid(), signal.SIGKILL)
    linux.close_inherited(3)
    lines = _Lines()
    while (order := lines.next()) is None and not lines.is_over:
        lines.receive()
    try:
        if order is not None:
            _serve(json.loads(order), lines)
    except Failed as failure:
        _say("failed", str(failure)[:_TEXT_CHARS])
    # Not the usual end: it would wait for NVML, which may hang.
    os._exit(0)
