import { type Attack, attack, attacks, proven } from "../attack.ts";

/**
 * Sets the priority of many processes to the best that one of them has. Without capabilities a process cannot improve
 * a priority, so nothing changes even where the call is let through; the kernel then says EACCES, a filter EPERM.
 */
const reprioritize = (name: string, which: string): Attack =>
  attack(
    "process",
    name,
    `call("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))
try:
    call("setpriority", ${which}, 0, os.getpriority((${which}) & 3, 0))
except PermissionError as error:
    require(error.errno == errno.EACCES)`,
  );

/** Ways into processes that are not the app's own. */
export const PROCESSES: readonly Attack[] = [
  ...attacks("landlock", {
    "read the service's environment": `read("/proc/%d/environ" % service_pid)`,
    "read the service's memory": `open("/proc/%d/mem" % service_pid, "rb").close()`,
    "read where the service's memory is": `require(read("/proc/%d/maps" % service_pid))`,
    "see the service's files": `os.readlink("/proc/%d/fd/0" % service_pid)`,
    "open the service's files": `open("/proc/%d/fd/0" % service_pid, "rb").close()`,
    "enter the service's folder": `os.chdir("/proc/%d/cwd" % service_pid)`,
    "read a victim's environment": `read("/proc/%d/environ" % victim_pid)`,
    "write a victim's memory": `open("/proc/%d/mem" % victim_pid, "r+b").close()`,
    "read a neighbour's environment": `read("/proc/%d/environ" % neighbour_pid)`,
    "read a neighbour's memory": `open("/proc/%d/mem" % neighbour_pid, "rb").close()`,
  }),
  ...attacks("userns", {
    "count the service's files": `os.listdir("/proc/%d/fd" % service_pid)`,
    // The kernel refuses it to an app of a service that runs as root: that one has capabilities.
    "change a victim's processors": `os.sched_setaffinity(victim_pid, os.sched_getaffinity(victim_pid))`,
    "find a victim's shared memory by its number": `require(call("shmget", memory_key, 0, 0) >= 0)`,
  }),
  ...attacks("process", {
    "trace a victim": `call("ptrace", 0x4206, victim_pid, 0, 0)`,
    "be traced": `call("ptrace", 0, 0, 0, 0)`,
    "read a victim's memory by a call": `call("process_vm_readv", victim_pid, 0, 0, 0, 0, 0)`,
    "write a victim's memory by a call": `call("process_vm_writev", victim_pid, 0, 0, 0, 0, 0)`,
    "compare itself with the service": `call("kcmp", service_pid, os.getpid(), 0, 0, 0)`,
    "give advice on a victim's memory": `call("process_madvise", -1, 0, 0, 0, 0)`,
    "move a victim's memory": `call("move_pages", victim_pid, 0, 0, 0, 0, 0)`,
    "move all of a victim's memory": `call("migrate_pages", victim_pid, 0, 0, 0)`,
    "free a dying victim's memory": `call("process_mrelease", call("pidfd_open", victim_pid, 0), 0)`,
    "find a victim's locks": `require(call("get_robust_list", victim_pid, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)) >= 0)`,
    "take a victim's descriptor": `call("pidfd_getfd", call("pidfd_open", victim_pid, 0), 0, 0)`,
    "take the service's descriptor": `call("pidfd_getfd", call("pidfd_open", service_pid, 0), 0, 0)`,
    "change the service's limits": `resource.prlimit(service_pid, resource.RLIMIT_CORE)`,
    "change a victim's priority": `os.setpriority(os.PRIO_PROCESS, victim_pid, 10)`,
    "change a victim's scheduler": `call("sched_setscheduler", victim_pid, 5, 0)`,
    "change a victim's turn at the disk": `call("ioprio_set", 1, victim_pid, 3 << 13)`,
    // No kernel knows such a class, so nothing changes where the call is let through.
    "change the turn at the disk of its user": `call("ioprio_set", 3, 0, 7 << 13)`,
    "change the turn at the disk of its group": `call("ioprio_set", 2, 0, 7 << 13)`,
    "change the turn at the disk of its user with bits the kernel ignores": `call("ioprio_set", 1 << 32 | 3, 0, 7 << 13)`,
    "keep processors idle beside a victim": `call("prctl", 62, 1, victim_pid, 0, 0)`,
  }),
  ...proven("landlock", {
    "signal the service": `os.kill(service_pid, 0)`,
    "signal the service's group": `os.killpg(os.getpgid(service_pid), 0)`,
    "signal a victim": `os.kill(victim_pid, 0)`,
    "signal a victim by its descriptor": `signal.pidfd_send_signal(os.pidfd_open(victim_pid), 0)`,
    "signal another app's replica": `os.kill(neighbour_pid, 0)`,
    "signal its outer keeper": `os.kill(outer_pid, 0)`,
  }),
  reprioritize("change the priority of all processes of its user", "os.PRIO_USER"),
  reprioritize("change the priority of its process group", "os.PRIO_PGRP"),
  reprioritize("change the priority of its user with bits the kernel ignores", "1 << 32 | os.PRIO_USER"),
  reprioritize("change the priority of its group with bits the kernel ignores", "1 << 32 | os.PRIO_PGRP"),
  attack(
    "userns",
    "see processes of others",
    `require(os.path.exists("/proc/%d" % service_pid) and bool(read("/proc/%d/cmdline" % victim_pid)))`,
    { isProven: true },
  ),
];

/** What of the kernel is for those who run the machine, and privileges that an app could keep or regain. */
export const KERNEL: readonly Attack[] = [
  ...attacks("process", {
    "make a user namespace": `call("unshare", 0x10000000)`,
    "make a child in one": `require(call("clone", 0x10000011, 0, 0, 0, 0) != 0 or os._exit(0))`,
    "the same by the newer call": `call("clone3", 0, 0)`,
    "enter a namespace": `call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)`,
    "mount over its storage": `call("mount", b"tmpfs", storage.encode(), b"tmpfs", 0, 0); call("umount2", storage.encode(), 2)`,
    unmount: `call("umount2", b"/nothing", 0)`,
    "open a file system": `call("fsopen", b"tmpfs", 0)`,
    "mount a file system that is open": `call("fsmount", -1, 0, 0)`,
    "change a mounted file system": `call("fspick", -1, b"", 0)`,
    "clone a mount": `call("open_tree", -100, b"/", 1)`,
    "move a mount": `call("move_mount", -1, b"", -1, b"", 0)`,
    "make a mount writable": `call("mount_setattr", -1, b"", 0, 0, 0)`,
    "list the mounts": `call("listmount", 0, 0, 0, 0)`,
    "change the root": `call("chroot", storage.encode())`,
    "pivot the root": `call("pivot_root", b"/nothing", b"/nothing")`,
    "load a program into the kernel": `call("bpf", 0, 0, 0)`,
    "open a ring of requests": `call("io_uring_setup", 1, ctypes.create_string_buffer(256))`,
    "use a ring of requests": `call("io_uring_enter", -1, 0, 0, 0, 0, 0)`,
    "change a ring of requests": `call("io_uring_register", -1, 0, 0, 0)`,
    "read the kernel's keys": `call("keyctl", 0, -4, 0)`,
    "add a key": `call("add_key", b"user", b"millrace-test", b"x", 1, -2)`,
    "ask for a key": `call("request_key", b"user", b"millrace-test", 0, 0)`,
    "measure the machine": `call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)`,
    "handle page faults": `call("userfaultfd", 1)`,
    "make memory that nothing counts": `os.close(call("memfd_secret", 0))`,
    "load a kernel module": `call("finit_module", -1, b"", 0)`,
    "remove a kernel module": `call("delete_module", b"no_such_module", 0)`,
    "load another kernel": `call("kexec_file_load", -1, -1, 0, b"", 0)`,
    "the same by the older call": `call("kexec_load", 0, -1, 0, 0)`,
    // With numbers that no kernel takes for an order.
    "stop the machine": `call("reboot", 0, 0, 0, 0)`,
    "open a file by its handle": `call("open_by_handle_at", -1, ctypes.create_string_buffer(64), 0)`,
    "get a file's handle": `call("name_to_handle_at", -1, b"", 0, 0, 0)`,
    "rename the host": `call("sethostname", b"x", -1)`,
    "rename the host's domain": `call("setdomainname", b"x", -1)`,
    "read the kernel's log": `call("syslog", 3, ctypes.create_string_buffer(64), 64)`,
    "ask for quotas": `call("quotactl", 0, 0, 0, 0)`,
    "the same by a descriptor": `call("quotactl_fd", -1, 0, 0, 0)`,
    "add swap": `call("swapon", b"/nothing", 0)`,
    "remove swap": `call("swapoff", b"/nothing")`,
    "account for processes": `call("acct", b"/nothing")`,
    "set the clock": `call("settimeofday", 0, ctypes.c_void_p(1))`,
    "set it by another call": `call("clock_settime", 999, 0)`,
    "tune the clock": `call("adjtimex", ctypes.c_void_p(1))`,
    "tune it by another call": `call("clock_adjtime", 999, 0)`,
    "type into a terminal": `try:
    fcntl.ioctl(0, 0x5412, b"x")
except OSError as error:
    require(error.errno != errno.EPERM)`,
    "gain privileges by a program": `require(status("NoNewPrivs") == "0")`,
    "keep a capability": `require(int(status("CapEff"), 16) | int(status("CapPrm"), 16) != 0)`,
    "take all capabilities": `call("capset", struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *[0xFFFFFFFF] * 4, 0, 0))
require(int(status("CapEff"), 16) != 0)`,
    "become another user": `os.setuid(65533)`,
    "join another group": `os.setgroups([65533])`,
    "be without a filter": `require(status("Seccomp") == "0")`,
    "dump its memory": `require(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)`,
    "raise its limit of open files": `most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
require(most < 1048576)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1))
except ValueError:
    require(False)`,
    "go before all others at the processor": `os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))`,
    "be nicer to itself": `os.nice(-5)`,
  }),
];

/** Ways to be, or to become, the user that the service runs as. */
export const USERS: readonly Attack[] = [
  ...attacks("uid", {
    "own the harness": `require(os.stat(harness_dir).st_uid == os.getuid())`,
    "keep the service's groups": `require(os.getgroups() not in ([], [os.getgid()]))`,
  }),
  ...proven("uid", {
    "be the service's user": `require(service_user in os.getresuid())`,
    "become the service's user": `os.setresuid(service_user, service_user, service_user)`,
    "take the service's group": `os.setresgid(service_group, service_group, service_group)`,
  }),
];
