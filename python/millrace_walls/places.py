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
KERNEL_FOLDERS = tuple("/sys/" + name for name in _KERNEL)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Names of cards begin like this: NVIDIA's, AMD's, those that draw, other accelerators.
_CARDS = ("nvidia", "kfd", "dri", "accel")
#: What an interpreter has in the folder above its `bin`.
_OF_A_PREFIX = ("pyvenv.cfg", "bin", "lib", "lib64", "libexec", "include", "share", "ssl", "etc")
#: The same in a home directory, or in its `.local`, where `share` and `etc` are the user's.
_OF_A_HOME = ("pyvenv.cfg", "bin", "lib", "lib64", "include")
#: By these a home directory is known. Not by the list of users: that may be on another machine.
_AT_HOME = (".bashrc", ".cache", ".config", ".local", ".profile", ".ssh")
_SETTINGS_BYTES = 64 * 1024

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
    # The keeper's own has the installers.
    interpreters = [plan.interpreter or sys.executable, sys.executable]
    around = [each for path in interpreters for each in _around(path, links)]
    _note_links(plan, {_follow(path, {}) for path in interpreters}, links)
    own = (plan.harness, plan.bundle, *([plan.environment] if plan.environment else []))
    program = () if is_within(_follow(os.path.dirname(plan.program), {}), data_dir) else (plan.program,)
    read = [_follow(path, links) for path in (*_SYSTEM, *settings, *around, *program, *own, *plan.reads)]
    for path in read:
        if is_within(data_dir, path):
            raise ValueError("the data directory %s is in %s, which apps may read: move it" % (data_dir, path))
    # Devices, and what the kernel tells, an app has of its own.
    shown = (
        path for path in dict.fromkeys(read) if not any(is_within(path, each) for each in ("/dev", "/proc", "/sys"))
    )
    return [path for path in shown if os.path.exists(path)]


def _note_links(plan: Plan, interpreters: set[str], links: dict[str, str]) -> None:
    """The links by which an environment leads to its interpreter: Python looks for its library beside one of them.

    An environment may have been changed by its app, to see what is around something else: that is not followed.
    """
    found: dict[str, str] = {}
    if _follow(plan.program, found) in interpreters:
        links.update(found)
    if plan.environment is not None:
        found = {}
        try:
            if _follow(os.path.join(plan.environment, "bin", "python"), found) in interpreters:
                links.update(found)
        except OSError:
            pass  # Its links lead in a circle. The program may be one that does without.


def _around(interpreter: str, links: dict[str, str]) -> list[str]:
    """An interpreter of the host, and what it needs that is around it. The service has chosen it, and no app has."""
    real = _follow(interpreter, links)
    folders = [os.path.dirname(real)]
    # One of a virtual environment has its library elsewhere. It may be a copy, which no link leads away from.
    home = home_of(os.path.dirname(os.path.dirname(interpreter)))
    if home is not None:
        folders += [os.path.dirname(interpreter), _follow(home, links)]
    # Only there is what is beside it Python's.
    prefixes = [prefix for prefix, name in map(os.path.split, folders) if name == "bin" and prefix != "/"]
    return [real, *(os.path.join(prefix, name) for prefix in prefixes for name in _names_in(prefix))]


def home_of(environment: str) -> str | None:
    """The folder of the interpreter that a virtual environment was made with; None for what is none."""
    try:
        with open(os.path.join(environment, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as settings:
            lines = settings.read(_SETTINGS_BYTES).split("\n")
    except OSError:
        return None
    named = (line.partition("=") for line in lines)
    return next((value.strip() for key, _, value in named if key.strip() == "home"), None)


def _names_in(prefix: str) -> tuple[str, ...]:
    is_home = any(os.path.lexists(os.path.join(prefix, name)) for name in _AT_HOME)
    return _OF_A_HOME if is_home or os.path.basename(prefix) == ".local" else _OF_A_PREFIX


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


_REMEDY = "install it where every user may read it, such as in /opt, or open that to others with chmod"


class Interpreter:
    """A Python of the host, and the files that it cannot start without, as seen from outside the walls."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._program = os.path.realpath(path)
        self._library = _library(self._program, path)

    def why_not(self) -> str | None:
        """Why this process, as it is now, cannot run it; None where nothing is known against it."""
        why = None if os.access(self._program, os.X_OK) else _obstacle(self._program, os.X_OK)
        if why is None and self._library is not None and not _is_readable(self._library):
            why = _obstacle(self._library, os.R_OK)
        return why and "its Python, %s, is out of its reach: %s" % (self._path, why)


def _library(program: str, path: str) -> str | None:
    """The first file of its library that it reads; None if that is not where it usually is."""
    # A copy in a virtual environment has the library of the Python that the environment was made with.
    home = home_of(os.path.dirname(os.path.dirname(path)))
    for folder in (os.path.dirname(program), home or ""):
        for lib in ("lib", "lib64"):
            library = os.path.join(os.path.dirname(folder), lib, os.path.basename(program), "os.py")
            if os.path.exists(library):
                return library
    return None


def _is_readable(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _obstacle(path: str, needed: int) -> str:
    """What keeps this process from a file: the first on the way whose mode does, or else the walls."""
    here = "/"
    for part in path.split("/")[1:]:
        if not os.access(here, os.X_OK):
            break
        here = os.path.join(here, part)
    if not os.path.exists(here) or (here == path and os.access(here, needed)):
        return "an app does not see %s" % here
    found = os.stat(here)
    owner = "the app's own user" if found.st_uid == os.geteuid() else "another user"
    return "%s has mode %04o and belongs to %s; %s" % (here, found.st_mode & 0o7777, owner, _REMEDY)
