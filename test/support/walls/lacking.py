"""Runs a program as if on a host that lacks something: `lacking.py WHAT[,WHAT…] UID PROGRAM…`.

`namespaces`: nobody may make a user namespace. `landlock`: the kernel has none. `capabilities`: root is as powerless as
in a container that drops all of them. `nothing`: the host as it is. A UID of `-` stays whoever it is.
"""

import errno
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "python"))
from millrace_walls import kernel

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NEW_USER = 0x10000000
_X86 = kernel.MACHINE == "x86_64"
_CLONE, _UNSHARE, _CLONE3 = (56, 272, 435) if _X86 else (220, 97, 435)
_LANDLOCK = (444, 445, 446)
_SECCOMP = 317 if _X86 else 277


def refuse(lacking: "set[str]") -> None:
    """A filter of system calls with nothing in it but what the host lacks."""
    code: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, 0)]
    if "landlock" in lacking:
        for number in _LANDLOCK:
            code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    if "namespaces" in lacking:
        code += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
        for number in (_CLONE, _UNSHARE):
            code += [
                (_JUMP_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, 16),
                (_JUMP_ANY_BIT, 0, 1, _NEW_USER),
                (_RETURN, 0, 0, _REFUSE | errno.EPERM),
                (_RETURN, 0, 0, _ALLOW),
            ]
    code.append((_RETURN, 0, 0, _ALLOW))
    program = kernel.hold(b"".join(struct.pack("=HBBI", *each) for each in code))
    kernel.gain_no_privileges()
    kernel.syscall(_SECCOMP, 1, 0, struct.pack("@HP", len(code), kernel.address_of(program)))


lacks, uid, *command = sys.argv[1:]
what = set(lacks.split(","))
unknown = what - {"namespaces", "landlock", "capabilities", "nothing"}
if unknown:
    sys.exit("nothing is known of " + ", ".join(sorted(unknown)))
if uid != "-":
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
if "capabilities" in what:
    kernel.drop_privileges(None)
if what & {"namespaces", "landlock"}:
    refuse(what)
os.execv(command[0], command)
