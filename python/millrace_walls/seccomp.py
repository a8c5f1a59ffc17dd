"""Filters system calls: allows everything except what reaches beyond the app's own processes.

The kernel runs the filter, a small program, at each system call. It caches answers that depend only on the number.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable

from . import kernel
from .kernel import machine_of

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
_ASK = 0x7FC00000  # The call waits for the agent's answer.

_SET_MODE_FILTER = 1
# SECCOMP_FILTER_FLAG_TSYNC, NEW_LISTENER, TSYNC_ESRCH: with a listener, the last one reports a failure.
_ALL_THREADS, _LISTENER, _OR_ERROR = 1, 8, 16

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_NAMESPACES = 0x7E020000
#: On x86-64 a second set of the same calls starts here.
_X32 = 0x40000000

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DATAGRAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 2, 5, 0xF
#: Protocols by the kind of socket: TCP; UDP and pings. Others connect by calls of their own.
_STREAMS, _DATAGRAMS = (0, 6), (0, 17, 1, 58)
#: Connects and sends in one call.
_MSG_FASTOPEN = 0x20000000
#: By protocol, options that make a connection lead elsewhere than was judged, with what programs expect where they are
#: unknown. IPPROTO_TCP: TCP_FASTOPEN_CONNECT connects only when something is sent, which may be long after. IPPROTO_IP
#: and IPPROTO_IPV6: IP_OPTIONS, IPV6_2292RTHDR, IPV6_2292PKTOPTIONS and IPV6_RTHDR route by way of other hosts.
_MISLEADING = ((6, (30,), errno.ENOPROTOOPT), (0, (4,), errno.EPERM), (41, (5, 6, 57), errno.EPERM))
_NETLINK_ROUTE = 0
#: These would type into the terminal of the user who started the service.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
#: F_SETLEASE, F_SETDELEG: other processes that open a file with a lease wait up to 45 s. The service and other apps may
#: have the same user, whose files an app could lease; and the service reads its storage.
_LEASES = (1024, 1040)
#: PR_SCHED_CORE: keeps processors idle beside a process, or beside another of the same user.
_SHARE_CORES = 62


#: Instructions: code, jumps if true and if false, value.
_Program = list[tuple[int, int, int, int]]


def _load(offset: int) -> _Program:
    return [(_LOAD, 0, 0, offset)]


def _answer(answer: int) -> _Program:
    return [(_RETURN, 0, 0, answer)]


def _answer_if(test: int, value: int, answer: int) -> _Program:
    return [(test, 0, 1, value), *_answer(answer)]


def _answer_unless(value: int, answer: int) -> _Program:
    return [(_JUMP_EQUAL, 1, 0, value), *_answer(answer)]


def _only_if(value: int, block: _Program) -> _Program:
    """The block, if that value was loaded. It must not be longer than 255 instructions."""
    return [(_JUMP_EQUAL, 0, len(block), value), *block]


class Rules:
    """What a filter refuses or asks about, beyond what it always refuses."""

    def __init__(self, *, network: str, is_judged: bool, unix: str, asks_unix: bool, asks_names: bool) -> None:
        #: `true`, `false` or `egress`.
        self.network = network
        #: Connecting over the internet, binding and listening wait for the agent.
        self.is_judged = is_judged and network != "false"
        #: Unix sockets: `all`; streams, and others that the agent is `asked` for; `streams`; only `pairs` of streams.
        self.unix = unix
        #: Connecting and binding them waits for the agent.
        self.asks_unix = asks_unix
        #: Opening a file the way that threads are named waits for the agent.
        self.asks_names = asks_names

    @property
    def asks(self) -> bool:
        return self.is_judged or self.asks_unix or self.asks_names


def install(rules: Rules) -> int | None:
    """Installs the filter for this process and all it starts. Raises OSError if the host cannot. If calls wait for the
    agent, returns the descriptor of the kernel's notifications.
    """
    code = kernel.hold(program(kernel.MACHINE, rules))
    header = struct.pack("@HP", len(code) // 8, kernel.address_of(code))
    flags = _ALL_THREADS | _LISTENER | _OR_ERROR if rules.asks else _ALL_THREADS
    kernel.gain_no_privileges()
    result = kernel.syscall(machine_of(kernel.MACHINE).seccomp, _SET_MODE_FILTER, flags, header)
    if rules.asks:
        return result
    if result != 0:
        raise OSError(errno.EBUSY, "a thread has a filter of its own")
    return None


def program(name: str, rules: Rules) -> bytes:
    """The filter for an architecture, as `uname` names it."""
    machine = machine_of(name)
    refuse = _REFUSE | errno.EPERM
    code = _load(_ARCH)
    # A program for another architecture has other numbers, and would pass every test below.
    code += _answer_unless(machine.arch, _KILL) + _load(_NUMBER)
    if rules.is_judged:
        # First: of all calls that are not decided by their number, apps send most often.
        for number, place in machine.sends:
            # No connecting while sending. Programs then fall back, as on hosts where that is switched off.
            code += _only_if(number, _look_at(place, [(_JUMP_ANY_BIT, _MSG_FASTOPEN, _REFUSE | errno.EOPNOTSUPP)]))
        code += _answer_if(_JUMP_EQUAL, machine.listen, _ASK)
        options = _load(_ARGUMENT + 8)
        for protocol, names, error in _MISLEADING:
            options += _only_if(protocol, _look_at(2, _equal(_REFUSE | error, *names)))
        code += _only_if(machine.setsockopt, options + _answer(_ALLOW))
    if rules.is_judged or rules.asks_unix:
        for number in (machine.connect, machine.bind):
            code += _answer_if(_JUMP_EQUAL, number, _ASK)
    if rules.asks_names:
        # Only with the flags that threads are named with: C's `fopen(path, "w")` in CUDA, and the C library's own.
        code += _only_if(machine.openat, _look_at(2, _equal(_ASK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDWR)))
    code += _answer_if(_JUMP_AT_LEAST, _X32, _REFUSE | errno.ENOSYS)
    # Its arguments are in memory, which no filter can read. Without it the C library uses the older call.
    code += _answer_if(_JUMP_EQUAL, machine.clone3, _REFUSE | errno.ENOSYS)
    code += _only_if(machine.fcntl, _look_at(1, _equal(refuse, *_LEASES)))
    for number in machine.refused:
        code += _answer_if(_JUMP_EQUAL, number, refuse)
    code += _only_if(machine.clone, _look_at(0, [(_JUMP_ANY_BIT, _NAMESPACES, refuse)]))
    code += _only_if(machine.ioctl, _look_at(1, _equal(refuse, _TIOCSTI, _TIOCLINUX)))
    code += _only_if(machine.prctl, _look_at(0, _equal(refuse, _SHARE_CORES)))
    for number, words in machine.on_a_process:
        # Limits and priorities of the caller alone: the service is a process of the same user.
        tests: _Program = []
        for place, value in words.items():
            tests += _load(_ARGUMENT + 8 * place) + _answer_unless(value, refuse)
        code += _only_if(number, tests + _answer(_ALLOW))
    if rules.unix != "all":
        code += _only_if(machine.socketpair, _streams(refuse))
    code += _only_if(machine.socket, _socket(refuse, rules)) + _answer(_ALLOW)
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _look_at(place: int, answers: Iterable[tuple[int, int, int]], otherwise: int = _ALLOW, mask: int = 0) -> _Program:
    """Looks at one argument: gives the answer of the first test that holds with its value, or else `otherwise`."""
    code = _load(_ARGUMENT + 8 * place)
    if mask:
        code.append((_AND, 0, 0, mask))
    for test, value, answer in answers:
        code += _answer_if(test, value, answer)
    return code + _answer(otherwise)


def _equal(answer: int, *values: int) -> list[tuple[int, int, int]]:
    return [(_JUMP_EQUAL, value, answer) for value in values]


def _streams(refuse: int, datagrams: int | None = None) -> _Program:
    """Permits sockets that reach only their peer: a datagram socket can send to any path."""
    asked = [] if datagrams is None else _equal(datagrams, _SOCK_DATAGRAM)
    return _look_at(1, _equal(_ALLOW, _SOCK_STREAM, _SOCK_SEQPACKET) + asked, refuse, _SOCK_TYPE)


def _socket(refuse: int, rules: Rules) -> _Program:
    """Permits the families of sockets that an app has a use for."""
    code = _load(_ARGUMENT)
    if rules.unix == "asked":
        code += _only_if(_AF_UNIX, _streams(refuse, datagrams=_ASK))
    elif rules.unix == "streams":
        code += _only_if(_AF_UNIX, _streams(refuse))
    elif rules.unix == "all":
        code += _answer_if(_JUMP_EQUAL, _AF_UNIX, _ALLOW)
    if rules.network != "false":
        # No raw sockets. Datagrams have an address each, so connections could not be judged.
        datagrams = _DATAGRAMS if rules.network != "egress" or not rules.is_judged else ()
        internet = [*_load(_ARGUMENT + 8), (_AND, 0, 0, _SOCK_TYPE)]
        for kind, protocols in ((_SOCK_STREAM, _STREAMS), (_SOCK_DATAGRAM, datagrams)):
            # The kernel's own error for protocols that it was built without.
            unknown = _REFUSE | errno.EPROTONOSUPPORT if protocols else refuse
            internet += _only_if(kind, _look_at(2, _equal(_ALLOW, *protocols), unknown))
        for family in (_AF_INET, _AF_INET6):
            code += _only_if(family, internet + _answer(refuse))
    code += _only_if(_AF_NETLINK, _look_at(2, _equal(_ALLOW, _NETLINK_ROUTE), refuse))
    return code + _answer(refuse)
