"""Which places of the host an app sees: what every program needs, its interpreter, and what is its own."""

from __future__ import annotations

import errno
import os
import sys

from .plan import Plan

#: Programs and libraries of the host.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store")
#: Of the host's settings: names, addresses, certificates, time, fonts. Nothing that holds a secret.
_SETTINGS = (
    *("alternatives", "ca-certificates", "crypto-policies", "fonts", "gai.conf", "group", "host.conf", "hosts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "OpenCL"),
    *("os-release", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl/cert.pem", "ssl/certs"),
    *("ssl/openssl.cnf", "timezone", "vulkan"),
    # Which system it is: pip asks, and takes a file that is there and cannot be read for an error.
    *("alpine-release", "debian_version", "lsb-release", "redhat-release", "system-release"),
)
#: What the kernel tells of processors, cards and limits; not its tracing, nor its firmware.
_KERNEL = ("block", "bus", "class", "dev", "devices", "fs/cgroup", "kernel/mm", "module")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Names of cards begin like this: NVIDIA's, AMD's, those that draw, other accelerators.
_CARDS = ("nvidia", "kfd", "dri", "accel")
#: Of the folder above an interpreter's `bin`: that may be a home directory, so never all of it.
_OF_A_PREFIX = ("pyvenv.cfg", "bin", "lib", "lib64", "libexec", "include", "share", "ssl", "etc")

_MAX_LINKS = 40


class Places:
    """What the app of a plan sees: real paths, and the links that lead to them."""

    def __init__(self, plan: Plan) -> None:
        self.links: dict[str, str] = {}
        self.user = plan.user
        self.memory_bytes = plan.memory_bytes
        self.read = _readable(plan, self.links)
        self.bundle = _follow(plan.bundle, self.links)
        self.storage = plan.storage and _follow(plan.storage, self.links)
        self.scratch = _follow(plan.scratch, self.links)
        #: Folders whose files it may change for good.
        self.write = [_follow(path, self.links) for path in (*plan.writes, *([plan.storage] if plan.storage else []))]
        names = os.listdir("/dev")
        self.devices = ["/dev/" + name for name in names if name in _DEVICES or name.startswith(_CARDS)]
        self.has_nvidia = "nvidiactl" in names


def _readable(plan: Plan, links: dict[str, str]) -> list[str]:
    """Raises if that would show it what belongs to others."""
    data_dir = _follow(plan.data_dir, links)
    settings = ("/etc/" + name for name in _SETTINGS)
    # Either may be a virtual environment of the host, and is a link to the real one; the host's own has the installers.
    programs = tuple(each for path in (plan.program, sys.executable) for each in (path, _follow(path, links)))
    # Packages of its own may name an interpreter that is no interpreter, to see what is around it.
    outside = [program for program in programs if not is_within(_follow(os.path.dirname(program), links), data_dir)]
    prefixes = (os.path.dirname(os.path.dirname(program)) for program in outside if _is_interpreter(program))
    interpreter = (os.path.join(prefix, name) for prefix in prefixes for name in _OF_A_PREFIX)
    own = (plan.harness, plan.bundle, *([plan.environment] if plan.environment else []))
    read = [_follow(path, links) for path in (*_SYSTEM, *settings, *interpreter, *outside, *own, *plan.reads)]
    for path in read:
        if is_within(data_dir, path):
            raise ValueError("the data directory %s is in %s, which apps may read: move it" % (data_dir, path))
    return [path for path in dict.fromkeys(read) if os.path.exists(path) and not _is_kernels(path)]


def _is_kernels(path: str) -> bool:
    """Whether it is a device, or what the kernel tells: an app has its own."""
    return any(is_within(path, folder) for folder in ("/dev", "/proc", "/sys"))


def _is_interpreter(program: str) -> bool:
    """Whether it lies where a Python does, so that what is around it is Python's."""
    folder, name = os.path.split(program)
    prefix, last = os.path.split(folder)
    return name.startswith("python") and last == "bin" and prefix != "/"


def kernel_folders() -> tuple[str, ...]:
    """What may be read of what the kernel tells of the machine."""
    return tuple("/sys/" + name for name in _KERNEL)


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it; both are real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _follow(path: str, links: dict[str, str]) -> str:
    """The real path; every link on the way is noted, as it is needed wherever the path is used."""
    here = ""
    parts = path.split("/")
    followed = 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here).rstrip("/")
            continue
        name = here + "/" + part
        try:
            target = os.readlink(name)
        except OSError:
            here = name
            continue
        links[name] = target
        followed += 1
        if followed > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            here = ""
        parts = target.split("/") + parts
    return here or "/"
