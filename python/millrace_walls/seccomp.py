"""Which system calls an app may make. Everything is allowed but what reaches beyond the app's own processes.

A filter is a small program that the kernel runs at each system call. Calls that are allowed or refused by their number
alone cost nothing: the kernel remembers the answer.
"""

from __future__ import annotations

import errno
import struct

from . import kernel

# Where the kernel puts what a filter looks at: struct seccomp_data.
_NUMBER, _ARCH = 0, 4
_ARGUMENT = 16  # Of eight bytes each, the lower half first on both machines.

# Instructions of the classic Berkeley packet filter.
_LOAD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_AND, _RETURN = 0x54, 0x06

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_REFUSE = 0x00050000  # With the error's number in the lower half.
_ASK = 0x7FC00000  # The call waits for what the outer keeper answers.

_SET_MODE_FILTER = 1
# SECCOMP_FILTER_FLAG_TSYNC, NEW_LISTENER, TSYNC_ESRCH: with a listener, a failure is told by the last of them.
_ALL_THREADS, _LISTENER, _OR_ERROR = 1, 8, 16

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_NAMESPACES = 0x7E020000
#: On x86-64 a second set of the same calls begins here.
_X32 = 0x40000000

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DATAGRAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 2, 5, 0xF
#: What goes over the internet, by the kind of socket: TCP; UDP and pings. Others connect by calls of their own.
_STREAMS, _DATAGRAMS = (0, 6), (0, 17, 1, 58)
#: To connect and send in one call.
_MSG_FASTOPEN = 0x20000000
#: IPPROTO_TCP, TCP_FASTOPEN_CONNECT: to connect only when something is sent, which may be long after it was judged.
_OF_TCP, _CONNECT_LATER = 6, 30
_NETLINK_ROUTE = 0
#: Terminals: they would type for whoever started the service.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
#: PR_SCHED_CORE: processors that stand idle beside a process, or beside another of the same user.
_SHARE_CORES = 62


class _Machine:
    """Numbers of system calls, by the kernel's tables."""

    arch: int
    seccomp: int
    socket: int
    socketpair: int
    clone: int
    clone3: int
    ioctl: int
    prctl: int
    connect: int
    bind: int
    setsockopt: int
    #: Calls that send, with the place of the argument that holds their flags.
    sends: tuple[tuple[int, int], ...]
    refused: tuple[int, ...]
    #: Calls that change processes of the same user, with the arguments, by place, that name the caller alone.
    on_a_process: tuple[tuple[int, dict[int, int]], ...]


# On every machine: io_uring, mounts, pidfd_getfd, process_madvise, quotactl_fd, memfd_secret, process_mrelease.
_NEWER = (*range(425, 434), 438, 440, 442, 443, 447, 448, 457, 458, 467)
# Process 0 is the caller. PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS 1; of the other kinds, 0 is the caller's group or user.
_PID, _PRIORITY, _DISK_PRIORITY = {0: 0}, {0: 0, 1: 0}, {0: 1, 1: 0}


class _X8664(_Machine):
    arch = 0xC000003E
    seccomp = 317
    socket = 41
    socketpair = 53
    clone = 56
    clone3 = 435
    ioctl = 16
    prctl = 157
    connect = 42
    bind = 49
    setsockopt = 54
    sends = ((44, 3), (46, 2), (307, 3))  # sendto, sendmsg, sendmmsg
    refused = (
        *(101, 310, 311, 312),  # ptrace, process_vm_readv and _writev, kcmp
        *(248, 249, 250),  # add_key, request_key, keyctl
        *(165, 166, 155, 161),  # mount, umount2, pivot_root, chroot
        *(272, 308),  # unshare, setns
        *(174, 175, 176, 177, 178, 313, 246, 320),  # kernel modules, another kernel
        *(321, 298, 323, 303, 304),  # bpf, perf_event_open, userfaultfd, name_to_ and open_by_handle_at
        *(167, 168, 169, 163, 179, 103),  # swapon, swapoff, reboot, acct, quotactl, syslog
        *(164, 227, 159, 305),  # settimeofday, clock_settime, adjtimex, clock_adjtime
        *(170, 171, 153),  # sethostname, setdomainname, vhangup
        *(172, 173, 154, 134, 212, 180),  # iopl, ioperm, modify_ldt, uselib, lookup_dcookie, nfsservctl
        *_NEWER,
    )
    # prlimit64, sched_setscheduler, sched_setparam, sched_setattr, migrate_pages, move_pages, get_robust_list
    on_a_process = (
        *((number, _PID) for number in (302, 144, 142, 314, 256, 279, 274)),
        *((141, _PRIORITY), (251, _DISK_PRIORITY)),  # setpriority, ioprio_set
    )


class _Aarch64(_Machine):
    arch = 0xC00000B7
    seccomp = 277
    socket = 198
    socketpair = 199
    clone = 220
    clone3 = 435
    ioctl = 29
    prctl = 167
    connect = 203
    bind = 200
    setsockopt = 208
    sends = ((206, 3), (211, 2), (269, 3))
    refused = (
        *(117, 270, 271, 272),
        *(217, 218, 219),
        *(40, 39, 41, 51),
        *(97, 268),
        *(105, 106, 273, 104, 294),
        *(280, 241, 282, 264, 265),
        *(224, 225, 142, 89, 60, 116),
        *(170, 112, 171, 266),
        *(161, 162, 58),
        *(18, 42),
        *_NEWER,
    )
    on_a_process = (
        *((number, _PID) for number in (261, 119, 118, 274, 238, 239, 100)),
        *((140, _PRIORITY), (30, _DISK_PRIORITY)),
    )


_MACHINES = {"x86_64": _X8664, "aarch64": _Aarch64}


class _Program:
    """Instructions, each of 8 bytes."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, 0, 0, offset))

    def mask(self, bits: int) -> None:
        self._code.append((_AND, 0, 0, bits))

    def answer(self, answer: int) -> None:
        self._code.append((_RETURN, 0, 0, answer))

    def answer_if(self, test: int, value: int, answer: int) -> None:
        self._code.append((test, 0, 1, value))
        self.answer(answer)

    def answer_unless(self, value: int, answer: int) -> None:
        self._code.append((_JUMP_EQUAL, 1, 0, value))
        self.answer(answer)

    def only_if(self, value: int, block: _Program) -> None:
        """The block, where what was loaded is that value. A jump reaches over 255 instructions."""
        self._code.append((_JUMP_EQUAL, 0, len(block._code), value))
        self._code += block._code

    def packed(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *each) for each in self._code)


class Rules:
    """What a filter refuses beyond what it always does."""

    def __init__(self, *, network: str, is_judged: bool, no_unix_sockets: bool) -> None:
        #: `true`, `false` or `egress`.
        self.network = network
        #: To connect, and to take a port, waits for the outer keeper.
        self.is_judged = is_judged and network != "false"
        #: Of unix sockets, pairs stay.
        self.no_unix_sockets = no_unix_sockets


def install(rules: Rules) -> int | None:
    """From now on this process and all it starts are refused these calls, for good. Raises where the host cannot.

    Where connections are judged, gives the descriptor on which the kernel asks.
    """
    code = kernel.hold(program(kernel.MACHINE, rules))
    header = struct.pack("@HP", len(code) // 8, kernel.address_of(code))
    flags = _ALL_THREADS | _LISTENER | _OR_ERROR if rules.is_judged else _ALL_THREADS
    kernel.gain_no_privileges()
    result = kernel.syscall(_machine(kernel.MACHINE).seccomp, _SET_MODE_FILTER, flags, header)
    if rules.is_judged:
        return result
    if result != 0:
        raise OSError(errno.EBUSY, "a thread has a filter of its own")
    return None


def program(name: str, rules: Rules) -> bytes:
    """The filter for a machine of that name."""
    machine = _machine(name)
    refuse = _REFUSE | errno.EPERM
    filter_ = _Program()
    filter_.load(_ARCH)
    # A program for another kind of processor has other numbers: it would slip past every line below.
    filter_.answer_unless(machine.arch, _KILL)
    filter_.load(_NUMBER)
    if rules.is_judged:
        # First: of all that cannot be answered by the number alone, apps send most often.
        for number, place in machine.sends:
            filter_.only_if(number, _send(place))
        for number in (machine.connect, machine.bind):
            filter_.answer_if(_JUMP_EQUAL, number, _ASK)
        filter_.only_if(machine.setsockopt, _setsockopt())
    filter_.answer_if(_JUMP_AT_LEAST, _X32, _REFUSE | errno.ENOSYS)
    # What it asks for is in memory, which no filter can read. Without it the C library uses the older call.
    filter_.answer_if(_JUMP_EQUAL, machine.clone3, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        filter_.answer_if(_JUMP_EQUAL, number, refuse)
    filter_.only_if(machine.clone, _clone(refuse))
    filter_.only_if(machine.ioctl, _none_of(refuse, 1, _TIOCSTI, _TIOCLINUX))
    filter_.only_if(machine.prctl, _none_of(refuse, 0, _SHARE_CORES))
    for number, words in machine.on_a_process:
        filter_.only_if(number, _own_process(refuse, words))
    if rules.no_unix_sockets:
        filter_.only_if(machine.socketpair, _socketpair(refuse))
    filter_.only_if(machine.socket, _socket(refuse, rules))
    filter_.answer(_ALLOW)
    return filter_.packed()


def _send(place: int) -> _Program:
    """No connecting by the way. Programs that would fall back, as on hosts where that is switched off."""
    block = _Program()
    block.load(_ARGUMENT + 8 * place)
    block.answer_if(_JUMP_ANY_BIT, _MSG_FASTOPEN, _REFUSE | errno.EOPNOTSUPP)
    block.answer(_ALLOW)
    return block


def _setsockopt() -> _Program:
    """No connection is put off: by then another app may listen there."""
    later = _Program()
    later.load(_ARGUMENT + 16)
    later.answer_if(_JUMP_EQUAL, _CONNECT_LATER, _REFUSE | errno.ENOPROTOOPT)
    later.answer(_ALLOW)
    block = _Program()
    block.load(_ARGUMENT + 8)
    block.only_if(_OF_TCP, later)
    block.answer(_ALLOW)
    return block


def _clone(refuse: int) -> _Program:
    block = _Program()
    block.load(_ARGUMENT)
    block.answer_if(_JUMP_ANY_BIT, _NAMESPACES, refuse)
    block.answer(_ALLOW)
    return block


def _none_of(refuse: int, place: int, *requests: int) -> _Program:
    block = _Program()
    block.load(_ARGUMENT + 8 * place)
    for request in requests:
        block.answer_if(_JUMP_EQUAL, request, refuse)
    block.answer(_ALLOW)
    return block


def _own_process(refuse: int, words: dict[int, int]) -> _Program:
    """Limits and priorities of the caller alone: the service is a process of the same user."""
    block = _Program()
    for place, value in words.items():
        block.load(_ARGUMENT + 8 * place)
        block.answer_unless(value, refuse)
    block.answer(_ALLOW)
    return block


def _socketpair(refuse: int) -> _Program:
    """Ends that stay tied to each other: a pair of datagram sockets can send to any path."""
    block = _Program()
    block.load(_ARGUMENT + 8)
    block.mask(_SOCK_TYPE)
    for kind in (_SOCK_STREAM, _SOCK_SEQPACKET):
        block.answer_if(_JUMP_EQUAL, kind, _ALLOW)
    block.answer(refuse)
    return block


def _socket(refuse: int, rules: Rules) -> _Program:
    """Of the families of sockets, those that an app has a use for."""
    allow = _Program()
    allow.answer(_ALLOW)
    netlink = _Program()
    netlink.load(_ARGUMENT + 16)
    netlink.answer_if(_JUMP_EQUAL, _NETLINK_ROUTE, _ALLOW)
    netlink.answer(refuse)
    block = _Program()
    block.load(_ARGUMENT)
    if not rules.no_unix_sockets:
        block.only_if(_AF_UNIX, allow)
    if rules.network != "false":
        internet = _internet(refuse, has_datagrams=rules.network != "egress" or not rules.is_judged)
        block.only_if(_AF_INET, internet)
        block.only_if(_AF_INET6, internet)
    block.only_if(_AF_NETLINK, netlink)
    block.answer(refuse)
    return block


def _internet(refuse: int, *, has_datagrams: bool) -> _Program:
    """No raw sockets. Datagrams take an address each, so that no connection could be judged for them."""
    block = _Program()
    block.load(_ARGUMENT + 8)
    block.mask(_SOCK_TYPE)
    for kind, protocols in ((_SOCK_STREAM, _STREAMS), (_SOCK_DATAGRAM, _DATAGRAMS if has_datagrams else ())):
        block.only_if(kind, _protocols(refuse, protocols))
    block.answer(refuse)
    return block


def _protocols(refuse: int, allowed: tuple[int, ...]) -> _Program:
    block = _Program()
    block.load(_ARGUMENT + 16)
    for protocol in allowed:
        block.answer_if(_JUMP_EQUAL, protocol, _ALLOW)
    # What the kernel says of protocols that it was built without.
    block.answer(_REFUSE | errno.EPROTONOSUPPORT if allowed else refuse)
    return block


def _machine(name: str) -> type[_Machine]:
    try:
        return _MACHINES[name]
    except KeyError:
        raise OSError(errno.ENOSYS, "no filter of system calls for " + name) from None
