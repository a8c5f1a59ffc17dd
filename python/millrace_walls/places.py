"""The files of the host that an app sees: what every program needs, its interpreter, and its own."""

from __future__ import annotations

import errno
import os
import sys

from .plan import Plan

#: Programs and libraries of the host.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store")
#: In /etc: names, addresses, certificates, time, fonts. Nothing that holds a secret.
_SETTINGS = (
    *("alternatives", "ca-certificates", "crypto-policies", "fonts", "gai.conf", "group", "host.conf", "hosts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "OpenCL"),
    *("os-release", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl/cert.pem", "ssl/certs"),
    *("ssl/openssl.cnf", "timezone", "vulkan"),
    # For pip, which fails if one of these exists and cannot be read.
    *("alpine-release", "debian_version", "lsb-release", "redhat-release", "system-release"),
)
#: In /sys: processors, cards and limits, but neither tracing nor firmware.
_KERNEL = ("block", "bus", "class", "dev", "devices", "fs/cgroup", "kernel/mm", "module")
KERNEL_FOLDERS = tuple("/sys/" + name for name in _KERNEL)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Prefixes of the names of cards: NVIDIA's, which may be assigned to apps; AMD's, graphics, other accelerators.
_NVIDIA = "nvidia"
_CARDS = (_NVIDIA, "kfd", "dri", "accel")
#: An interpreter's files beside its `bin`.
_OF_A_PREFIX = ("pyvenv.cfg", "bin", "lib", "lib64", "libexec", "include", "share", "ssl", "etc")
#: The same in a home directory, or in its `.local`, where `share` and `etc` are the user's.
_OF_A_HOME = ("pyvenv.cfg", "bin", "lib", "lib64", "include")
#: Marks of a home directory. The list of users may be on another machine.
_AT_HOME = (".bashrc", ".cache", ".config", ".local", ".profile", ".ssh")
_SETTINGS_BYTES = 64 * 1024

_MAX_LINKS = 40


class Places:
    """The places that the app of a plan sees: real paths, and the links that lead to them."""

    def __init__(self, plan: Plan) -> None:
        self.links: dict[str, str] = {}
        self.user = plan.user
        self.memory_bytes = plan.memory_bytes
        self.read = _readable(plan, self.links)
        self.bundle = _follow(plan.bundle, self.links)
        self.storage = plan.storage and _follow(plan.storage, self.links)
        self.scratch = _follow(plan.scratch, self.links)
        #: Folders whose changes outlive the app.
        self.write = [_follow(path, self.links) for path in (*plan.writes, *([plan.storage] if plan.storage else []))]
        names = [name for name in os.listdir("/dev") if name in _DEVICES or name.startswith(_CARDS)]
        if plan.has_own_gpus:
            names = [name for name in names if not is_gpu(name) and "/dev/" + name not in plan.gpus]
        self.devices = ["/dev/" + name for name in names]
        #: GPUs that it cannot open when it starts.
        self.closed: list[str] = []
        if plan.gpus:
            from .gpus import Gpus

            gpus = Gpus(plan.gpus, plan.granted_gpus)
            self.closed = gpus.closed()
            seen = (path for path in gpus.files() if plan.has_namespaces or path not in self.closed)
            self.devices += [path for path in seen if os.path.exists(path)]
        self.has_nvidia = "/dev/nvidiactl" in self.devices


def is_gpu(name: str) -> bool:
    """Whether an entry of /dev is of NVIDIA GPUs, or a folder for the parts of partitioned ones (MIG)."""
    return name.startswith(_NVIDIA)


def _readable(plan: Plan, links: dict[str, str]) -> list[str]:
    """The readable paths. Raises ValueError if they include the data directory, which holds everyone's files."""
    data_dir = _follow(plan.data_dir, links)
    settings = ("/etc/" + name for name in _SETTINGS)
    # The installers come with the keeper's own interpreter.
    interpreters = [plan.interpreter or sys.executable, sys.executable]
    around = [each for path in interpreters for each in _around(path, links)]
    _note_links(plan, {_follow(path, {}) for path in interpreters}, links)
    own = (plan.harness, plan.bundle, *([plan.environment] if plan.environment else []))
    program = () if is_within(_follow(os.path.dirname(plan.program), {}), data_dir) else (plan.program,)
    read = [_follow(path, links) for path in (*_SYSTEM, *settings, *around, *program, *own, *plan.reads)]
    for path in read:
        if is_within(data_dir, path):
            raise ValueError("the data directory %s is in %s, which apps may read: move it" % (data_dir, path))
    # An app has its own /dev, /proc and /sys.
    shown = (
        path for path in dict.fromkeys(read) if not any(is_within(path, each) for each in ("/dev", "/proc", "/sys"))
    )
    return [path for path in shown if os.path.exists(path)]


def _note_links(plan: Plan, interpreters: set[str], links: dict[str, str]) -> None:
    """Notes the links from an environment to its interpreter: Python looks for its library beside one of them. A link
    that leads anywhere else is not followed: the app may have changed its environment.
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
            pass  # A circle of links. The program may not need the environment's interpreter.


def _around(interpreter: str, links: dict[str, str]) -> list[str]:
    """An interpreter of the host, which the service has chosen, and the files around it that it needs."""
    real = _follow(interpreter, links)
    folders = [os.path.dirname(real)]
    # In a virtual environment the interpreter may be a copy, without a link to the folder of its library.
    home = home_of(os.path.dirname(os.path.dirname(interpreter)))
    if home is not None:
        folders += [os.path.dirname(interpreter), _follow(home, links)]
    # Only beside a folder `bin` are Python's own files.
    prefixes = [prefix for prefix, name in map(os.path.split, folders) if name == "bin" and prefix != "/"]
    return [real, *(os.path.join(prefix, name) for prefix in prefixes for name in _names_in(prefix))]


def home_of(environment: str) -> str | None:
    """The folder of the interpreter that made a virtual environment; None if this is no environment."""
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
    """Whether a path is a folder or below it; both must be real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _follow(path: str, links: dict[str, str]) -> str:
    """The real path. Notes every link on the way: the path works only with them."""
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
    """A Python of the host, and the files without which it cannot start."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._program = os.path.realpath(path)
        self._library = _library(self._program, path)

    def why_not(self) -> str | None:
        """Why this process cannot run it at the moment; None if no reason is known."""
        why = None if os.access(self._program, os.X_OK) else _obstacle(self._program, os.X_OK)
        if why is None and self._library is not None:
            try:
                os.close(os.open(self._library, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                why = _obstacle(self._library, os.R_OK)
        return why and "its Python, %s, is out of its reach: %s" % (self._path, why)


def _library(program: str, path: str) -> str | None:
    """The first file that it reads of its library; None if that is not in its usual place."""
    # A copy in a virtual environment uses the library of the original.
    home = home_of(os.path.dirname(os.path.dirname(path)))
    for folder in (os.path.dirname(program), home or ""):
        for lib in ("lib", "lib64"):
            library = os.path.join(os.path.dirname(folder), lib, os.path.basename(program), "os.py")
            if os.path.exists(library):
                return library
    return None


def _obstacle(path: str, needed: int) -> str:
    """Why a file is out of reach: the mode of the first folder on the way that forbids it, or else the walls."""
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
