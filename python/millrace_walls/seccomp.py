"""Which system calls an app may make. Everything is allowed but what reaches beyond the app's own processes.

A filter is a small program that the kernel runs at each system call. Calls that are allowed or refused by their number
alone cost nothing: the kernel remembers the answer.
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
_ASK = 0x7FC00000  # The call waits for what the agent answers.

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
#: By protocol, options that make a connection lead elsewhere than was judged, with what programs expect where they are
#: unknown. IPPROTO_TCP: TCP_FASTOPEN_CONNECT connects only when something is sent, which may be long after. IPPROTO_IP
#: and IPPROTO_IPV6: IP_OPTIONS, IPV6_2292RTHDR, IPV6_2292PKTOPTIONS and IPV6_RTHDR route by way of other hosts.
_MISLEADING = ((6, (30,), errno.ENOPROTOOPT), (0, (4,), errno.EPERM), (41, (5, 6, 57), errno.EPERM))
_NETLINK_ROUTE = 0
#: Terminals: these would type for the user who started the service.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
#: F_SETLEASE, F_SETDELEG: the kernel has every other process wait that opens a file with a lease, up to 45 s each time.
#: The service and other apps are of the same user, whose files an app may lease; and the service reads its storage.
_LEASES = (1024, 1040)
#: PR_SCHED_CORE: processors that stand idle beside a process, or beside another of the same user.
_SHARE_CORES = 62


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

    def __init__(self, *, network: str, is_judged: bool, unix: str, asks_unix: bool, asks_names: bool) -> None:
        #: `true`, `false` or `egress`.
        self.network = network
        #: To connect over the internet, to take a port and to listen waits for the agent.
        self.is_judged = is_judged and network != "false"
        #: Unix sockets: `all` of them; streams, where the agent is `asked` for others; `streams` alone; or only
        #: `pairs` of streams.
        self.unix = unix
        #: To connect and to bind them waits for the agent.
        self.asks_unix = asks_unix
        #: To open a file as programs do that name their threads waits for the agent.
        self.asks_names = asks_names

    @property
    def asks(self) -> bool:
        return self.is_judged or self.asks_unix or self.asks_names


def install(rules: Rules) -> int | None:
    """From now on this process and all it starts are refused these calls, for good. Raises where the host cannot.

    Where calls wait for the agent, gives the descriptor on which the kernel asks.
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
    """The filter for a machine of that name."""
    machine = machine_of(name)
    refuse = _REFUSE | errno.EPERM
    filter_ = _Program()
    filter_.load(_ARCH)
    # A program for another kind of processor has other numbers: it would slip past every line below.
    filter_.answer_unless(machine.arch, _KILL)
    filter_.load(_NUMBER)
    if rules.is_judged:
        # First: of all that cannot be answered by the number alone, apps send most often.
        for number, place in machine.sends:
            # No connecting by the way. Programs then fall back, as on hosts where that is switched off.
            fast_open = (_JUMP_ANY_BIT, _MSG_FASTOPEN, _REFUSE | errno.EOPNOTSUPP)
            filter_.only_if(number, _look_at(place, [fast_open]))
        filter_.answer_if(_JUMP_EQUAL, machine.listen, _ASK)
        filter_.only_if(machine.setsockopt, _setsockopt())
    if rules.is_judged or rules.asks_unix:
        for number in (machine.connect, machine.bind):
            filter_.answer_if(_JUMP_EQUAL, number, _ASK)
    if rules.asks_names:
        # Only with the flags that threads are named with: C's `fopen(path, "w")` in CUDA, and the C library's own.
        filter_.only_if(machine.openat, _look_at(2, _equal(_ASK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDWR)))
    filter_.answer_if(_JUMP_AT_LEAST, _X32, _REFUSE | errno.ENOSYS)
    # What it asks for is in memory, which no filter can read. Without it the C library uses the older call.
    filter_.answer_if(_JUMP_EQUAL, machine.clone3, _REFUSE | errno.ENOSYS)
    filter_.only_if(machine.fcntl, _look_at(1, _equal(refuse, *_LEASES)))
    for number in machine.refused:
        filter_.answer_if(_JUMP_EQUAL, number, refuse)
    filter_.only_if(machine.clone, _look_at(0, [(_JUMP_ANY_BIT, _NAMESPACES, refuse)]))
    filter_.only_if(machine.ioctl, _look_at(1, _equal(refuse, _TIOCSTI, _TIOCLINUX)))
    filter_.only_if(machine.prctl, _look_at(0, _equal(refuse, _SHARE_CORES)))
    for number, words in machine.on_a_process:
        filter_.only_if(number, _own_process(refuse, words))
    if rules.unix != "all":
        filter_.only_if(machine.socketpair, _streams(refuse))
    filter_.only_if(machine.socket, _socket(refuse, rules))
    filter_.answer(_ALLOW)
    return filter_.packed()


def _look_at(place: int, answers: Iterable[tuple[int, int, int]], otherwise: int = _ALLOW, mask: int = 0) -> _Program:
    """Looks at one argument: the answer of the first test that holds, with a value, or else the other one."""
    block = _Program()
    block.load(_ARGUMENT + 8 * place)
    if mask:
        block.mask(mask)
    for test, value, answer in answers:
        block.answer_if(test, value, answer)
    block.answer(otherwise)
    return block


def _equal(answer: int, *values: int) -> list[tuple[int, int, int]]:
    return [(_JUMP_EQUAL, value, answer) for value in values]


def _setsockopt() -> _Program:
    block = _Program()
    block.load(_ARGUMENT + 8)
    for protocol, options, error in _MISLEADING:
        block.only_if(protocol, _look_at(2, _equal(_REFUSE | error, *options)))
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


def _streams(refuse: int, datagrams: int | None = None) -> _Program:
    """Sockets that reach what they are connected to: a datagram socket can send to any path."""
    asked = [] if datagrams is None else _equal(datagrams, _SOCK_DATAGRAM)
    return _look_at(1, _equal(_ALLOW, _SOCK_STREAM, _SOCK_SEQPACKET) + asked, refuse, _SOCK_TYPE)


def _socket(refuse: int, rules: Rules) -> _Program:
    """Of the families of sockets, those that an app has a use for."""
    allow = _Program()
    allow.answer(_ALLOW)
    block = _Program()
    block.load(_ARGUMENT)
    if rules.unix == "asked":
        block.only_if(_AF_UNIX, _streams(refuse, datagrams=_ASK))
    elif rules.unix == "streams":
        block.only_if(_AF_UNIX, _streams(refuse))
    elif rules.unix == "all":
        block.only_if(_AF_UNIX, allow)
    if rules.network != "false":
        internet = _internet(refuse, has_datagrams=rules.network != "egress" or not rules.is_judged)
        block.only_if(_AF_INET, internet)
        block.only_if(_AF_INET6, internet)
    block.only_if(_AF_NETLINK, _look_at(2, _equal(_ALLOW, _NETLINK_ROUTE), refuse))
    block.answer(refuse)
    return block


def _internet(refuse: int, *, has_datagrams: bool) -> _Program:
    """No raw sockets. Datagrams take an address each, so that no connection could be judged for them."""
    block = _Program()
    block.load(_ARGUMENT + 8)
    block.mask(_SOCK_TYPE)
    for kind, protocols in ((_SOCK_STREAM, _STREAMS), (_SOCK_DATAGRAM, _DATAGRAMS if has_datagrams else ())):
        # What the kernel says of protocols that it was built without.
        unknown = _REFUSE | errno.EPROTONOSUPPORT if protocols else refuse
        block.only_if(kind, _look_at(2, _equal(_ALLOW, *protocols), unknown))
    block.answer(refuse)
    return block
