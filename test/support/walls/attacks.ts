import type { Rung } from "../../../src/host/walls/rung.ts";

/**
 * One way out, in Python. It has succeeded if it ends without an `OSError`. Names that it does not define are the
 * test's facts, or belong to the hostile app.
 */
export type Attack = {
  readonly name: string;
  /** The lowest rung that stops it; those above stop it too. */
  readonly stoppedAt: Rung;
  readonly code: string;
  /** It succeeds one rung below, whoever runs the tests: so it is a real attack. */
  readonly isProven?: true;
};

const attack = (stoppedAt: Rung, name: string, code: string): Attack => ({ stoppedAt, name, code });
const proven = (stoppedAt: Rung, name: string, code: string): Attack => ({
  ...attack(stoppedAt, name, code),
  isProven: true,
});

const FILES: readonly Attack[] = [
  proven("landlock", "read the database", `read(data_dir + "/millrace.db")`),
  proven("landlock", "read the master key", `read(data_dir + "/master.key")`),
  proven("landlock", "read the owner's token", `read(data_dir + "/owner-token")`),
  proven("landlock", "list the data directory", `require("master.key" in os.listdir(data_dir))`),
  proven("landlock", "list another project's storage", `os.listdir(other_storage)`),
  proven("landlock", "read another project's file", `read(other_storage + "/secret")`),
  proven("landlock", "write another project's file", `open(other_storage + "/secret", "r+b").close()`),
  proven("landlock", "make a file in another project", `open(other_storage + "/planted", "w").close()`),
  proven("landlock", "read another app's code", `read(other_bundle + "/main.py")`),
  // On userns that is a copy of its own: walls/working-folder says so.
  proven("landlock", "change its own code", `open("main.py", "r+b").close(); require(rung != "userns")`),
  proven("landlock", "change another app's code", `open(other_bundle + "/main.py", "r+b").close()`),
  attack("landlock", "change the harness", `open(harness + "/millrace_worker/start.py", "r+b").close()`),
  attack("landlock", "change the outer keeper", `open(harness + "/millrace_walls/start.py", "r+b").close()`),
  attack("landlock", "change its interpreter", `open(os.__file__, "r+b").close()`),
  proven(
    "landlock",
    "see the scratch folders of others",
    `require(len(os.listdir(data_dir + "/scratch")) > 1)`,
  ),
  proven("landlock", "read files beside the data directory", `os.listdir(outside)`),
  attack("landlock", "read the host's passwords", `read("/etc/shadow")`),
  proven(
    "landlock",
    "read the master key by a link in its storage",
    `os.symlink(data_dir + "/master.key", storage + "/link-" + rung); read(storage + "/link-" + rung)`,
  ),
  proven(
    "landlock",
    "link the master key into its storage",
    `os.link(data_dir + "/master.key", storage + "/hard-" + rung); os.unlink(storage + "/hard-" + rung)`,
  ),
  proven("landlock", "read by its own root", `read("/proc/self/root" + data_dir + "/master.key")`),
  attack(
    "landlock",
    "read by the service's root",
    `read("/proc/%d/root%s/master.key" % (service_pid, data_dir))`,
  ),
  proven(
    "landlock",
    "move a file out of its storage",
    `open(storage + "/out", "w").close(); os.rename(storage + "/out", data_dir + "/out"); os.unlink(data_dir + "/out")`,
  ),
  proven(
    "landlock",
    "see what others share by name",
    `open(shared, "w").close(); require(os.path.basename(shared) in os.listdir("/dev/shm") and rung != "userns")`,
  ),
  proven(
    "userns",
    "make a file in /dev/shm for others",
    `open(shared, "w").close(); require(rung not in ("userns", "uid"))`,
  ),
  attack("landlock", "change the kernel's settings", `open("/proc/sys/kernel/core_pattern", "r+b").close()`),
  proven("uid", "own the service's files", `require(os.stat("main.py").st_uid == os.getuid())`),
  proven("userns", "see that the master key exists", `os.stat(data_dir + "/master.key")`),
  proven("userns", "change the master key's mode", `os.chmod(data_dir + "/master.key", 0o600)`),
  attack("process", "make a device", `os.mknod(storage + "/disk-" + rung, 0o60600, os.makedev(8, 0))`),
];

const PROCESSES: readonly Attack[] = [
  attack("landlock", "read the service's environment", `read("/proc/%d/environ" % service_pid)`),
  attack("landlock", "read the service's memory", `open("/proc/%d/mem" % service_pid, "rb").close()`),
  attack("landlock", "see the service's files", `os.readlink("/proc/%d/fd/0" % service_pid)`),
  attack("landlock", "open the service's files", `open("/proc/%d/fd/0" % service_pid, "rb").close()`),
  attack("landlock", "enter the service's folder", `os.chdir("/proc/%d/cwd" % service_pid)`),
  attack("userns", "count the service's files", `os.listdir("/proc/%d/fd" % service_pid)`),
  attack("landlock", "read a victim's environment", `read("/proc/%d/environ" % victim_pid)`),
  attack("landlock", "read a neighbour's environment", `read("/proc/%d/environ" % neighbour_pid)`),
  attack("process", "trace a victim", `call("ptrace", 0x4206, victim_pid, 0, 0)`),
  attack("process", "be traced", `call("ptrace", 0, 0, 0, 0)`),
  attack("process", "read a victim's memory", `call("process_vm_readv", victim_pid, 0, 0, 0, 0, 0)`),
  attack(
    "process",
    "take a victim's descriptor",
    `call("pidfd_getfd", call("pidfd_open", victim_pid, 0), 0, 0)`,
  ),
  proven("landlock", "signal the service", `os.kill(service_pid, 0)`),
  proven("landlock", "signal a victim", `os.kill(victim_pid, 0)`),
  proven("landlock", "signal another app's replica", `os.kill(neighbour_pid, 0)`),
  proven("landlock", "signal its outer keeper", `os.kill(outer_pid, 0)`),
  attack("process", "change the service's limits", `resource.prlimit(service_pid, resource.RLIMIT_CORE)`),
  attack("process", "change a victim's priority", `os.setpriority(os.PRIO_PROCESS, victim_pid, 10)`),
  attack("process", "change a victim's scheduler", `call("sched_setscheduler", victim_pid, 5, 0)`),
  // The kernel refuses it to an app of a service that runs as root: that one has capabilities.
  attack(
    "userns",
    "change a victim's processors",
    `os.sched_setaffinity(victim_pid, os.sched_getaffinity(victim_pid))`,
  ),
  proven(
    "userns",
    "see processes of others",
    `require(os.path.exists("/proc/%d" % service_pid) and read("/proc/%d/cmdline" % victim_pid))`,
  ),
];

const USERS: readonly Attack[] = [
  proven("uid", "be the service's user", `require(service_user in os.getresuid())`),
  proven("uid", "become the service's user", `os.setresuid(service_user, service_user, service_user)`),
  proven("uid", "take the service's group", `os.setresgid(service_group, service_group, service_group)`),
  attack("uid", "keep the service's groups", `require(os.getgroups() not in ([], [os.getgid()]))`),
];

const SOCKETS: readonly Attack[] = [
  attack(
    "process",
    "connect to the control socket",
    `socket.socket(socket.AF_UNIX).connect(sockets + "/control.sock")`,
  ),
  attack(
    "process",
    "connect to the replicas' home",
    `socket.socket(socket.AF_UNIX).connect(sockets + "/home.sock")`,
  ),
  attack(
    "process",
    "send to a path by a pair of sockets",
    `socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", victim_datagram)`,
  ),
  attack(
    "process",
    "the same by a raw pair",
    `socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", victim_datagram)`,
  ),
  attack(
    "process",
    "connect to an abstract socket",
    `socket.socket(socket.AF_UNIX).connect("\\0" + victim_abstract)`,
  ),
  attack(
    "process",
    "send to an abstract socket",
    `socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0" + victim_abstract + "-datagram")`,
  ),
  attack("process", "open a raw socket", `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`),
  attack("process", "open a raw IPv6 socket", `socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)`),
  attack("process", "open a packet socket", `socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)`),
  attack("process", "open a socket of the kernel's ciphers", `socket.socket(38, socket.SOCK_SEQPACKET)`),
  attack("process", "open a socket to virtual machines", `socket.socket(40, socket.SOCK_STREAM)`),
  attack("process", "listen to the kernel's events", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)`),
];

const KERNEL: readonly Attack[] = [
  attack("process", "make a user namespace", `call("unshare", 0x10000000)`),
  attack(
    "process",
    "make a child in one",
    `require(call("clone", 0x10000011, 0, 0, 0, 0) != 0 or os._exit(0))`,
  ),
  attack("process", "the same by the newer call", `call("clone3", 0, 0)`),
  attack("process", "enter a namespace", `call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)`),
  attack("process", "mount over its storage", `call("mount", b"tmpfs", storage.encode(), b"tmpfs", 0, 0)`),
  attack("process", "unmount", `call("umount2", b"/nothing", 0)`),
  attack("process", "open a file system", `call("fsopen", b"tmpfs", 0)`),
  attack("process", "clone a mount", `call("open_tree", -100, b"/", 1)`),
  attack("process", "change the root", `call("chroot", storage.encode())`),
  attack("process", "pivot the root", `call("pivot_root", b"/nothing", b"/nothing")`),
  attack("process", "load a program into the kernel", `call("bpf", 0, 0, 0)`),
  attack("process", "open a ring of requests", `call("io_uring_setup", 1, ctypes.create_string_buffer(256))`),
  attack("process", "read the kernel's keys", `call("keyctl", 0, -4, 0)`),
  attack("process", "add a key", `call("add_key", b"user", b"millrace-test", b"x", 1, -2)`),
  attack(
    "process",
    "measure the machine",
    `call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)`,
  ),
  attack("process", "handle page faults", `call("userfaultfd", 1)`),
  attack("process", "load a kernel module", `call("finit_module", -1, b"", 0)`),
  attack("process", "load another kernel", `call("kexec_file_load", -1, -1, 0, b"", 0)`),
  attack(
    "process",
    "open a file by its handle",
    `call("open_by_handle_at", -1, ctypes.create_string_buffer(64), 0)`,
  ),
  attack("process", "rename the host", `call("sethostname", b"x", -1)`),
  attack("process", "read the kernel's log", `call("syslog", 3, ctypes.create_string_buffer(64), 64)`),
  attack("process", "ask for quotas", `call("quotactl", 0, 0, 0, 0)`),
  attack("process", "add swap", `call("swapon", b"/nothing", 0)`),
  attack("process", "account for processes", `call("acct", b"/nothing")`),
  attack("process", "set the clock", `call("settimeofday", 0, ctypes.c_void_p(1))`),
  attack(
    "process",
    "type into a terminal",
    `import fcntl
try:
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
  attack("process", "be without a filter", `require(status("Seccomp") == "0")`),
  attack("process", "dump its memory", `require(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)`),
];

/** Every way out that we know of, by kind. */
export const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  files: FILES,
  processes: PROCESSES,
  users: USERS,
  sockets: SOCKETS,
  kernel: KERNEL,
};
