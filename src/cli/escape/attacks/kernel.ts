import { attack } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** What of the kernel is for those who run the machine, and privileges that an app could keep or regain. */
export const KERNEL: readonly Attack[] = [
  attack("process", "make a user namespace", `call("unshare", 0x10000000)`),
  attack(
    "process",
    "make a child in one",
    `require(call("clone", 0x10000011, 0, 0, 0, 0) != 0 or os._exit(0))`,
  ),
  attack("process", "the same by the newer call", `call("clone3", 0, 0)`),
  attack("process", "enter a namespace", `call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)`),
  attack(
    "process",
    "mount over its storage",
    `call("mount", b"tmpfs", storage.encode(), b"tmpfs", 0, 0); call("umount2", storage.encode(), 2)`,
  ),
  attack("process", "unmount", `call("umount2", b"/nothing", 0)`),
  attack("process", "open a file system", `call("fsopen", b"tmpfs", 0)`),
  attack("process", "mount a file system that is open", `call("fsmount", -1, 0, 0)`),
  attack("process", "change a mounted file system", `call("fspick", -1, b"", 0)`),
  attack("process", "clone a mount", `call("open_tree", -100, b"/", 1)`),
  attack("process", "move a mount", `call("move_mount", -1, b"", -1, b"", 0)`),
  attack("process", "make a mount writable", `call("mount_setattr", -1, b"", 0, 0, 0)`),
  attack("process", "list the mounts", `call("listmount", 0, 0, 0, 0)`),
  attack("process", "change the root", `call("chroot", storage.encode())`),
  attack("process", "pivot the root", `call("pivot_root", b"/nothing", b"/nothing")`),
  attack("process", "load a program into the kernel", `call("bpf", 0, 0, 0)`),
  attack("process", "open a ring of requests", `call("io_uring_setup", 1, ctypes.create_string_buffer(256))`),
  attack("process", "use a ring of requests", `call("io_uring_enter", -1, 0, 0, 0, 0, 0)`),
  attack("process", "change a ring of requests", `call("io_uring_register", -1, 0, 0, 0)`),
  attack("process", "read the kernel's keys", `call("keyctl", 0, -4, 0)`),
  attack("process", "add a key", `call("add_key", b"user", b"millrace-test", b"x", 1, -2)`),
  attack("process", "ask for a key", `call("request_key", b"user", b"millrace-test", 0, 0)`),
  attack(
    "process",
    "measure the machine",
    `call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)`,
  ),
  attack("process", "handle page faults", `call("userfaultfd", 1)`),
  attack("process", "make memory that nothing counts", `os.close(call("memfd_secret", 0))`),
  attack("process", "load a kernel module", `call("finit_module", -1, b"", 0)`),
  attack("process", "remove a kernel module", `call("delete_module", b"no_such_module", 0)`),
  attack("process", "load another kernel", `call("kexec_file_load", -1, -1, 0, b"", 0)`),
  attack("process", "the same by the older call", `call("kexec_load", 0, -1, 0, 0)`),
  // With numbers that no kernel takes for an order.
  attack("process", "stop the machine", `call("reboot", 0, 0, 0, 0)`),
  attack(
    "process",
    "open a file by its handle",
    `call("open_by_handle_at", -1, ctypes.create_string_buffer(64), 0)`,
  ),
  attack("process", "get a file's handle", `call("name_to_handle_at", -1, b"", 0, 0, 0)`),
  attack("process", "rename the host", `call("sethostname", b"x", -1)`),
  attack("process", "rename the host's domain", `call("setdomainname", b"x", -1)`),
  attack("process", "read the kernel's log", `call("syslog", 3, ctypes.create_string_buffer(64), 64)`),
  attack("process", "ask for quotas", `call("quotactl", 0, 0, 0, 0)`),
  attack("process", "the same by a descriptor", `call("quotactl_fd", -1, 0, 0, 0)`),
  attack("process", "add swap", `call("swapon", b"/nothing", 0)`),
  attack("process", "remove swap", `call("swapoff", b"/nothing")`),
  attack("process", "account for processes", `call("acct", b"/nothing")`),
  attack("process", "set the clock", `call("settimeofday", 0, ctypes.c_void_p(1))`),
  attack("process", "set it by another call", `call("clock_settime", 999, 0)`),
  attack("process", "tune the clock", `call("adjtimex", ctypes.c_void_p(1))`),
  attack("process", "tune it by another call", `call("clock_adjtime", 999, 0)`),
  attack(
    "process",
    "type into a terminal",
    `try:
    fcntl.ioctl(0, 0x5412, b"x")
except OSError as error:
    require(error.errno != errno.EPERM)`,
  ),
  attack("process", "gain privileges by a program", `require(status("NoNewPrivs") == "0")`),
  attack(
    "process",
    "keep a capability",
    `require(int(status("CapEff"), 16) | int(status("CapPrm"), 16) != 0)`,
  ),
  attack(
    "process",
    "take all capabilities",
    `call("capset", struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *[0xFFFFFFFF] * 4, 0, 0))
require(int(status("CapEff"), 16) != 0)`,
  ),
  attack("process", "become another user", `os.setuid(65533)`),
  attack("process", "join another group", `os.setgroups([65533])`),
  attack("process", "be without a filter", `require(status("Seccomp") == "0")`),
  attack("process", "dump its memory", `require(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)`),
  attack(
    "process",
    "raise its limit of open files",
    `most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
require(most < 1048576)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1))
except ValueError:
    require(False)`,
  ),
  attack(
    "process",
    "go before all others at the processor",
    `os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))`,
  ),
  attack("process", "be nicer to itself", `os.nice(-5)`),
];
