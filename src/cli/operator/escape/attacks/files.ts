import { type Attack, attack, attacks, proven, type Wall } from "../attack.ts";

/** A proven attack that makes a file: the app may have a folder of its own in that place. */
function planting(stoppedBy: Wall, name: string, folder: string, file: string): Attack {
  const code = `os.close(os.open(${folder} + "/${file}", os.O_CREAT | os.O_WRONLY, 0o600))`;
  return attack(stoppedBy, name, code, { isProven: true, thenFinds: { folder, name: file } });
}

/** Ways to files that are not the app's own. */
export const FILES: readonly Attack[] = [
  ...proven("landlock", {
    "read the master key": `read(master_key)`,
    "read the owner's token": `read(data_dir + "/owner-token")`,
    "write to the master key": `open(master_key, "r+b").close()`,
    "list the data directory": `require("owner-token" in os.listdir(data_dir))`,
    "list another project's storage": `os.listdir(other_storage)`,
    "read another project's file": `read(other_storage + "/secret")`,
    "write another project's file": `open(other_storage + "/secret", "r+b").close()`,
    "run another project's program": `subprocess.run([other_storage + "/program"], check=True)`,
    "read another app's code": `read(other_bundle + "/main.py")`,
    "change another app's code": `open(other_bundle + "/main.py", "r+b").close()`,
    "see the scratch folders of others": `require(len(os.listdir(data_dir + "/scratch")) > 1)`,
    "list the service's sockets": `os.listdir(sockets)`,
    "list a folder of the host": `os.listdir(victim_folder)`,
    "list what others have in /dev/shm": `require(victim_abstract in os.listdir("/dev/shm"))`,
    "read the master key by a link in its storage": `link = storage + "/link-" + tag
os.symlink(master_key, link)
try:
    read(link)
finally:
    os.unlink(link)`,
    "link the master key into its storage": `os.link(master_key, storage + "/hard-" + tag); os.unlink(storage + "/hard-" + tag)`,
    "read by its own root": `read("/proc/self/root" + master_key)`,
    "move a file out of its storage": `mine, theirs = storage + "/out-" + tag, data_dir + "/out-" + tag
open(mine, "w").close()
try:
    os.rename(mine, theirs)
finally:
    for path in (mine, theirs):
        if os.path.lexists(path):
            os.unlink(path)`,
  }),
  planting("landlock", "make a file in the data directory", "data_dir", "planted"),
  planting("landlock", "make a file in another project", "other_storage", "planted"),
  ...attacks("landlock", {
    "change the harness": `open(harness_dir + "/millrace_worker/start.py", "r+b").close()`,
    "change the outer keeper": `open(harness_dir + "/millrace_agent/local.py", "r+b").close()`,
    "change its interpreter": `open(os.__file__, "r+b").close()`,
    "read the host's passwords": `read("/etc/shadow")`,
    "read by the service's root": `read("/proc/%d/root%s" % (service_pid, master_key))`,
    "read by the first process's root": `read("/proc/1/root" + master_key)`,
    "change how the kernel handles crashes": `open("/proc/sys/kernel/core_pattern", "r+b").close()`,
    "change the kernel's limits on shared memory": `open("/proc/sys/kernel/shmall", "r+b").close()`,
    "reach the kernel's emergency keys": `os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))`,
    "change who dies when memory is short": `open("/proc/%d/oom_score_adj" % victim_pid, "r+b").close()`,
    "leave its control group": `open("/sys/fs/cgroup/cgroup.procs", "r+b").close()`,
    "look into the kernel's security": `os.listdir("/sys/kernel/security")`,
    "look into the kernel's tracing": `os.listdir("/sys/kernel/tracing")`,
    "read the machine's memory": `open("/dev/mem", "rb").close()`,
    "write to the kernel's log": `os.close(os.open("/dev/kmsg", os.O_WRONLY))`,
    "find the terminals of others": `require(any(name.isdigit() for name in os.listdir("/dev/pts")))`,
  }),
  planting("landlock", "make a file for others of the host", "victim_folder", "planted"),
  ...proven("userns", {
    // On lower levels, programs of several processes share memory there: a process that knows a name may open it.
    "read what others have in /dev/shm": `read("/dev/shm/" + victim_abstract)`,
    "see that the master key exists": `os.stat(master_key)`,
    "change the master key's mode": `os.chmod(master_key, 0o600)`,
    "change the master key's owner": `os.chown(master_key, -1, -1)`,
    "change the master key's times": `seen = os.stat(master_key); os.utime(master_key, ns=(seen.st_atime_ns, seen.st_mtime_ns))`,
  }),
  ...attacks("process", {
    "read the kernel's memory": `open("/proc/kcore", "rb").close()`,
    "take the kernel's messages": `open("/proc/kmsg", "rb").close()`,
    "make a device": `os.mknod(storage + "/disk-" + tag, 0o60600, os.makedev(8, 0)); os.unlink(storage + "/disk-" + tag)`,
    // F_SETLEASE and F_WRLCK: every other process that opens the file waits, up to 45 s.
    "have others wait that open a file": `path = storage + "/leased-" + tag
open(path, "w").close()
try:
    fcntl.fcntl(os.open(path, os.O_RDONLY), 1024, 1)
finally:
    os.unlink(path)`,
  }),
  ...attacks("userns", {
    "be told when the data directory changes": `call("inotify_add_watch", call("inotify_init1", 0), data_dir.encode(), 0x100); os.stat(master_key)`,
    "use devices in its storage": `require(not os.statvfs(storage).f_flag & 4)`,
    "use setuid programs in its storage": `require(not os.statvfs(storage).f_flag & os.ST_NOSUID)`,
  }),
];

/** Ways to have code run later: in the next start of the app, in other apps, or outside all walls. */
export const CODE: readonly Attack[] = [
  planting("landlock", "plant a module in its own code", "bundle", "usercustomize.py"),
  planting("landlock", "plant bytecode of its own code", "bundle", "main.pyc"),
  planting("landlock", "plant a module in another app's code", "other_bundle", "usercustomize.py"),
  ...attacks("landlock", {
    "plant a .pth file beside its packages": `make(sysconfig.get_paths()["purelib"] + "/millrace-planted.pth")`,
    "plant a module in Python's library": `make(os.path.dirname(os.__file__) + "/millrace_planted.py")`,
    "replace its interpreter": `make(os.path.dirname(sys.executable) + "/millrace-planted")`,
    "change the settings of the host": `make("/etc/millrace-planted")`,
    "have the host start a program": `make("/etc/cron.d/millrace-planted")`,
    "plant bytecode of the harness": `make(harness_dir + "/millrace_worker/__pycache__/planted.pyc")`,
    "plant a module in the outer keeper": `make(harness_dir + "/millrace_walls/planted.py")`,
  }),
  attack("landlock", "plant a bundle", `make(os.path.dirname(other_bundle) + "/planted-" + tag)`, {
    isProven: true,
  }),
  // Python looked for it before the app's first line: in the folder that the secret PYTHONPATH names.
  attack("process", "run outside by PYTHONPATH and sitecustomize", `require(customized == "0")`),
];

/**
 * How often the service is asked while something changes under its hands. One that looks first and opens then meets a
 * link every few times; on `uid` each answer takes two processes.
 */
const RACES = 10;

/** Files in the project's storage, by the path at which the service is asked for each: name and code of the attack. */
type Plants = Readonly<Record<string, readonly [name: string, code: string]>>;

function planted(stoppedBy: Wall, times: number, plants: Plants): Attack[] {
  return Object.entries(plants).map(([path, [name, code]]) =>
    attack(stoppedBy, name, code, { thenAsksFor: { path, times } }),
  );
}

/** Ways to have the service itself give away, or stumble over, what an app has put into its storage. */
export const STORAGE: readonly Attack[] = [
  ...planted("service", 1, {
    link: ["have the service read a link to the master key", `os.symlink(master_key, own + "/link")`],
    "folder/owner-token": [
      "have it read by a link to the data directory",
      `os.symlink(data_dir, own + "/folder")`,
    ],
    "up/owner-token": ["have it read by a link that goes up", `os.symlink("../../../..", own + "/up")`],
    pipe: ["have it wait for a pipe", `os.mkfifo(own + "/pipe")`],
  }),
  ...planted("landlock", 1, {
    name: ["have it read a second name of the master key", `os.link(master_key, own + "/name")`],
  }),
  ...planted("service", RACES, {
    race: [
      "have it read a file that becomes a link",
      `if os.fork() == 0:
    race, link, file = (own + "/" + name for name in ("race", "race-link", "race-file"))
    until = time.monotonic() + 20
    while time.monotonic() < until and not os.path.exists(own + "/race-over"):
        os.symlink(master_key, link)
        os.replace(link, race)
        with open(file, "wb") as plain:
            plain.write(b"plain")
        os.replace(file, race)
    os._exit(0)`,
    ],
    "swap/owner-token": [
      "have it read in a folder that becomes a link",
      `if os.fork() == 0:
    swap, link, folder = (own + "/" + name for name in ("swap", "swap-link", "swap-folder"))
    os.mkdir(swap)
    os.symlink(data_dir, link)
    until = time.monotonic() + 20
    while time.monotonic() < until and not os.path.exists(own + "/swap-over"):
        os.rename(swap, folder)
        os.rename(link, swap)
        os.rename(swap, link)
        os.rename(folder, swap)
    os._exit(0)`,
    ],
  }),
];
