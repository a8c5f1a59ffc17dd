import { attack, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

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
  attack("landlock", "read the service's environment", `read("/proc/%d/environ" % service_pid)`),
  attack("landlock", "read the service's memory", `open("/proc/%d/mem" % service_pid, "rb").close()`),
  attack("landlock", "read where the service's memory is", `require(read("/proc/%d/maps" % service_pid))`),
  attack("landlock", "see the service's files", `os.readlink("/proc/%d/fd/0" % service_pid)`),
  attack("landlock", "open the service's files", `open("/proc/%d/fd/0" % service_pid, "rb").close()`),
  attack("landlock", "enter the service's folder", `os.chdir("/proc/%d/cwd" % service_pid)`),
  attack("userns", "count the service's files", `os.listdir("/proc/%d/fd" % service_pid)`),
  attack("landlock", "read a victim's environment", `read("/proc/%d/environ" % victim_pid)`),
  attack("landlock", "write a victim's memory", `open("/proc/%d/mem" % victim_pid, "r+b").close()`),
  attack("landlock", "read a neighbour's environment", `read("/proc/%d/environ" % neighbour_pid)`),
  attack("landlock", "read a neighbour's memory", `open("/proc/%d/mem" % neighbour_pid, "rb").close()`),
  attack("process", "trace a victim", `call("ptrace", 0x4206, victim_pid, 0, 0)`),
  attack("process", "be traced", `call("ptrace", 0, 0, 0, 0)`),
  attack(
    "process",
    "read a victim's memory by a call",
    `call("process_vm_readv", victim_pid, 0, 0, 0, 0, 0)`,
  ),
  attack(
    "process",
    "write a victim's memory by a call",
    `call("process_vm_writev", victim_pid, 0, 0, 0, 0, 0)`,
  ),
  attack("process", "compare itself with the service", `call("kcmp", service_pid, os.getpid(), 0, 0, 0)`),
  attack("process", "give advice on a victim's memory", `call("process_madvise", -1, 0, 0, 0, 0)`),
  attack("process", "move a victim's memory", `call("move_pages", victim_pid, 0, 0, 0, 0, 0)`),
  attack("process", "move all of a victim's memory", `call("migrate_pages", victim_pid, 0, 0, 0)`),
  attack(
    "process",
    "free a dying victim's memory",
    `call("process_mrelease", call("pidfd_open", victim_pid, 0), 0)`,
  ),
  attack(
    "process",
    "find a victim's locks",
    `require(call("get_robust_list", victim_pid, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)) >= 0)`,
  ),
  attack(
    "process",
    "take a victim's descriptor",
    `call("pidfd_getfd", call("pidfd_open", victim_pid, 0), 0, 0)`,
  ),
  attack(
    "process",
    "take the service's descriptor",
    `call("pidfd_getfd", call("pidfd_open", service_pid, 0), 0, 0)`,
  ),
  proven("landlock", "signal the service", `os.kill(service_pid, 0)`),
  proven("landlock", "signal the service's group", `os.killpg(os.getpgid(service_pid), 0)`),
  proven("landlock", "signal a victim", `os.kill(victim_pid, 0)`),
  proven(
    "landlock",
    "signal a victim by its descriptor",
    `signal.pidfd_send_signal(os.pidfd_open(victim_pid), 0)`,
  ),
  proven("landlock", "signal another app's replica", `os.kill(neighbour_pid, 0)`),
  proven("landlock", "signal its outer keeper", `os.kill(outer_pid, 0)`),
  attack("process", "change the service's limits", `resource.prlimit(service_pid, resource.RLIMIT_CORE)`),
  attack("process", "change a victim's priority", `os.setpriority(os.PRIO_PROCESS, victim_pid, 10)`),
  attack("process", "change a victim's scheduler", `call("sched_setscheduler", victim_pid, 5, 0)`),
  attack("process", "change a victim's turn at the disk", `call("ioprio_set", 1, victim_pid, 3 << 13)`),
  reprioritize("change the priority of all processes of its user", "os.PRIO_USER"),
  reprioritize("change the priority of its process group", "os.PRIO_PGRP"),
  reprioritize("change the priority of its user with bits the kernel ignores", "1 << 32 | os.PRIO_USER"),
  reprioritize("change the priority of its group with bits the kernel ignores", "1 << 32 | os.PRIO_PGRP"),
  // No kernel knows such a class, so nothing changes where the call is let through.
  attack("process", "change the turn at the disk of its user", `call("ioprio_set", 3, 0, 7 << 13)`),
  attack("process", "change the turn at the disk of its group", `call("ioprio_set", 2, 0, 7 << 13)`),
  attack(
    "process",
    "change the turn at the disk of its user with bits the kernel ignores",
    `call("ioprio_set", 1 << 32 | 3, 0, 7 << 13)`,
  ),
  attack("process", "keep processors idle beside a victim", `call("prctl", 62, 1, victim_pid, 0, 0)`),
  // The kernel refuses it to an app of a service that runs as root: that one has capabilities.
  attack(
    "userns",
    "change a victim's processors",
    `os.sched_setaffinity(victim_pid, os.sched_getaffinity(victim_pid))`,
  ),
  proven(
    "userns",
    "see processes of others",
    `require(os.path.exists("/proc/%d" % service_pid) and bool(read("/proc/%d/cmdline" % victim_pid)))`,
  ),
  attack(
    "userns",
    "find a victim's shared memory by its number",
    `require(call("shmget", memory_key, 0, 0) >= 0)`,
  ),
];
