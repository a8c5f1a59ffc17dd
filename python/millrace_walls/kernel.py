"""System calls by number, and what a process gives up for good with them. Errors are raised as `OSError`."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct

MACHINE = os.uname().machine

# PyDLL keeps the interpreter's lock: the child of a `clone` must not have to acquire it.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

#: The most open files: old programs loop over all of them to close them.
_OPEN_FILES = 65_536
#: Processes and threads of the user, which may be the service's: stops a fork bomb, but no app with many threads.
_PROCESSES = 16_384


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Makes a system call; raises its errors. Bytes are passed as the address of a copy."""
    words = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise failure(ctypes.get_errno())
    return result


def failure(error: int) -> OSError:
    """The exception for an error number."""
    return OSError(error, os.strerror(error))


def prctl(option: int, value: int) -> None:
    """Sets a property of this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise failure(ctypes.get_errno())


def gain_no_privileges() -> None:
    """Programs that this process becomes get no more rights; the kernel requires that before any wall."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_privileges(user: int | None) -> None:
    """Drops all capabilities for good, and becomes `user`, if one is given."""
    gain_no_privileges()
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            break  # The kernel knows no more, or this is an ordinary user, who has none to regain.
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    syscall(_CAPSET[MACHINE], header, bytes(24))


def limit_resources() -> None:
    """Forbids core dumps, which hold the app's memory, and limits files and processes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, most in ((resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_NPROC, _PROCESSES)):
        soft, hard = (most if each == resource.RLIM_INFINITY else min(each, most) for each in resource.getrlimit(what))
        resource.setrlimit(what, (soft, hard))


def address_of(held: ctypes.Array[ctypes.c_char]) -> int:
    """The address of bytes, for structures that point to them."""
    return ctypes.addressof(held)


def hold(packed: bytes) -> ctypes.Array[ctypes.c_char]:
    """Bytes that keep their address as long as they are referenced."""
    return ctypes.create_string_buffer(packed, len(packed))


# On every machine: io_uring, mounts, pidfd_getfd, process_madvise, quotactl_fd, memfd_secret, process_mrelease.
_NEWER = (*range(425, 434), 438, 440, 442, 443, 447, 448, 457, 458, 467)
#: Calls that no app may make: on x86-64, and the same on aarch64, which has not all of them.
_REFUSED = (
    ((101, 310, 311, 312), (117, 270, 271, 272)),  # ptrace, process_vm_readv and _writev, kcmp
    ((248, 249, 250), (217, 218, 219)),  # add_key, request_key, keyctl
    ((165, 166, 155, 161), (40, 39, 41, 51)),  # mount, umount2, pivot_root, chroot
    ((272, 308), (97, 268)),  # unshare, setns
    ((174, 175, 176, 177, 178, 313, 246, 320), (105, 106, 273, 104, 294)),  # kernel modules, another kernel
    # bpf, perf_event_open, userfaultfd, name_to_ and open_by_handle_at
    ((321, 298, 323, 303, 304), (280, 241, 282, 264, 265)),
    ((167, 168, 169, 163, 179, 103), (224, 225, 142, 89, 60, 116)),  # swapon, swapoff, reboot, acct, quotactl, syslog
    ((164, 227, 159, 305), (170, 112, 171, 266)),  # settimeofday, clock_settime, adjtimex, clock_adjtime
    ((170, 171, 153), (161, 162, 58)),  # sethostname, setdomainname, vhangup
    ((172, 173, 154, 134, 212, 180), (18, 42)),  # iopl, ioperm, modify_ldt, uselib, lookup_dcookie, nfsservctl
    (_NEWER, _NEWER),
)
#: Calls that change processes of the same user. Process 0 is the caller: prlimit64, sched_setscheduler, sched_setparam,
#: sched_setattr, migrate_pages, move_pages, get_robust_list.
_BY_PID = (302, 144, 142, 314, 256, 279, 274), (261, 119, 118, 274, 238, 239, 100)
#: PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS 1; of the other kinds, 0 is the caller's group or user.
_PID, _PRIORITY, _DISK_PRIORITY = {0: 0}, {0: 0, 1: 0}, {0: 1, 1: 0}


class Machine:
    """The numbers of system calls on one architecture."""

    def __init__(self, at: int) -> None:
        """`at` is 0 for x86-64, and 1 for aarch64."""
        self.arch = (0xC000003E, 0xC00000B7)[at]
        self.seccomp = (317, 277)[at]
        self.socket = (41, 198)[at]
        self.socketpair = (53, 199)[at]
        self.clone = (56, 220)[at]
        self.clone3 = 435
        self.ioctl = (16, 29)[at]
        self.prctl = (157, 167)[at]
        self.fcntl = (72, 25)[at]
        self.connect = (42, 203)[at]
        self.bind = (49, 200)[at]
        self.listen = (50, 201)[at]
        self.openat = (257, 56)[at]
        self.setsockopt = (54, 208)[at]
        #: Calls that send, with the place of the argument that holds their flags: sendto, sendmsg, sendmmsg.
        self.sends = (((44, 3), (46, 2), (307, 3)), ((206, 3), (211, 2), (269, 3)))[at]
        self.refused = [number for row in _REFUSED for number in row[at]]
        #: Calls that change processes of the same user, with the arguments, by place, that name the caller alone.
        self.on_a_process = [
            *((number, _PID) for number in _BY_PID[at]),
            ((141, 140)[at], _PRIORITY),  # setpriority
            ((251, 30)[at], _DISK_PRIORITY),  # ioprio_set
        ]


_MACHINES = {"x86_64": Machine(0), "aarch64": Machine(1)}


def machine_of(name: str) -> Machine:
    """The numbers for an architecture, as `uname` names it. Raises OSError if they are not known."""
    if name not in _MACHINES:
        raise OSError(errno.ENOSYS, "no filter of system calls for " + name)
    return _MACHINES[name]
