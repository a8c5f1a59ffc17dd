import { attack, planting, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** Ways to files that are not the app's own. */
export const FILES: readonly Attack[] = [
  proven("landlock", "read the master key", `read(master_key)`),
  proven("landlock", "read the owner's token", `read(data_dir + "/owner-token")`),
  proven("landlock", "write to the master key", `open(master_key, "r+b").close()`),
  proven("landlock", "list the data directory", `require("owner-token" in os.listdir(data_dir))`),
  planting("landlock", "make a file in the data directory", "data_dir", "planted"),
  proven("landlock", "list another project's storage", `os.listdir(other_storage)`),
  proven("landlock", "read another project's file", `read(other_storage + "/secret")`),
  proven("landlock", "write another project's file", `open(other_storage + "/secret", "r+b").close()`),
  planting("landlock", "make a file in another project", "other_storage", "planted"),
  proven(
    "landlock",
    "run another project's program",
    `subprocess.run([other_storage + "/program"], check=True)`,
  ),
  proven("landlock", "read another app's code", `read(other_bundle + "/main.py")`),
  proven("landlock", "change another app's code", `open(other_bundle + "/main.py", "r+b").close()`),
  attack("landlock", "change the harness", `open(harness_dir + "/millrace_worker/start.py", "r+b").close()`),
  attack(
    "landlock",
    "change the outer keeper",
    `open(harness_dir + "/millrace_agent/local.py", "r+b").close()`,
  ),
  attack("landlock", "change its interpreter", `open(os.__file__, "r+b").close()`),
  proven(
    "landlock",
    "see the scratch folders of others",
    `require(len(os.listdir(data_dir + "/scratch")) > 1)`,
  ),
  proven("landlock", "list the service's sockets", `os.listdir(sockets)`),
  proven("landlock", "list a folder of the host", `os.listdir(victim_folder)`),
  planting("landlock", "make a file for others of the host", "victim_folder", "planted"),
  proven(
    "landlock",
    "list what others have in /dev/shm",
    `require(victim_abstract in os.listdir("/dev/shm"))`,
  ),
  // Below, programs of several processes share memory there: whoever knows a name may open it.
  proven("userns", "read what others have in /dev/shm", `read("/dev/shm/" + victim_abstract)`),
  attack("landlock", "read the host's passwords", `read("/etc/shadow")`),
  proven(
    "landlock",
    "read the master key by a link in its storage",
    `link = storage + "/link-" + tag
os.symlink(master_key, link)
try:
    read(link)
finally:
    os.unlink(link)`,
  ),
  proven(
    "landlock",
    "link the master key into its storage",
    `os.link(master_key, storage + "/hard-" + tag); os.unlink(storage + "/hard-" + tag)`,
  ),
  proven("landlock", "read by its own root", `read("/proc/self/root" + master_key)`),
  attack("landlock", "read by the service's root", `read("/proc/%d/root%s" % (service_pid, master_key))`),
  attack("landlock", "read by the first process's root", `read("/proc/1/root" + master_key)`),
  proven(
    "landlock",
    "move a file out of its storage",
    `mine, theirs = storage + "/out-" + tag, data_dir + "/out-" + tag
open(mine, "w").close()
try:
    os.rename(mine, theirs)
finally:
    for path in (mine, theirs):
        if os.path.lexists(path):
            os.unlink(path)`,
  ),
  attack(
    "landlock",
    "change how the kernel handles crashes",
    `open("/proc/sys/kernel/core_pattern", "r+b").close()`,
  ),
  attack(
    "landlock",
    "change the kernel's limits on shared memory",
    `open("/proc/sys/kernel/shmall", "r+b").close()`,
  ),
  attack(
    "landlock",
    "reach the kernel's emergency keys",
    `os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))`,
  ),
  attack(
    "landlock",
    "change who dies when memory is short",
    `open("/proc/%d/oom_score_adj" % victim_pid, "r+b").close()`,
  ),
  attack("landlock", "leave its control group", `open("/sys/fs/cgroup/cgroup.procs", "r+b").close()`),
  attack("landlock", "look into the kernel's security", `os.listdir("/sys/kernel/security")`),
  attack("landlock", "look into the kernel's tracing", `os.listdir("/sys/kernel/tracing")`),
  attack("landlock", "read the machine's memory", `open("/dev/mem", "rb").close()`),
  attack("landlock", "write to the kernel's log", `os.close(os.open("/dev/kmsg", os.O_WRONLY))`),
  attack(
    "landlock",
    "find the terminals of others",
    `require(any(name.isdigit() for name in os.listdir("/dev/pts")))`,
  ),
  attack("process", "read the kernel's memory", `open("/proc/kcore", "rb").close()`),
  attack("process", "take the kernel's messages", `open("/proc/kmsg", "rb").close()`),
  proven("userns", "see that the master key exists", `os.stat(master_key)`),
  proven("userns", "change the master key's mode", `os.chmod(master_key, 0o600)`),
  proven("userns", "change the master key's owner", `os.chown(master_key, -1, -1)`),
  proven(
    "userns",
    "change the master key's times",
    `seen = os.stat(master_key); os.utime(master_key, ns=(seen.st_atime_ns, seen.st_mtime_ns))`,
  ),
  attack(
    "userns",
    "be told when the data directory changes",
    `call("inotify_add_watch", call("inotify_init1", 0), data_dir.encode(), 0x100); os.stat(master_key)`,
  ),
  attack(
    "process",
    "make a device",
    `os.mknod(storage + "/disk-" + tag, 0o60600, os.makedev(8, 0)); os.unlink(storage + "/disk-" + tag)`,
  ),
  // F_SETLEASE and F_WRLCK: every other process that opens the file waits, up to 45 s.
  attack(
    "process",
    "have others wait that open a file",
    `path = storage + "/leased-" + tag
open(path, "w").close()
try:
    fcntl.fcntl(os.open(path, os.O_RDONLY), 1024, 1)
finally:
    os.unlink(path)`,
  ),
  attack("userns", "use devices in its storage", `require(not os.statvfs(storage).f_flag & 4)`),
  attack(
    "userns",
    "use setuid programs in its storage",
    `require(not os.statvfs(storage).f_flag & os.ST_NOSUID)`,
  ),
];
