import { type Attack, attacks, type Codes, type Wall } from "../attack.ts";

/** They take more than their share, and are not tried on a service that others use. */
const bombs = (limit: Wall, codes: Codes): Attack[] =>
  attacks(limit, codes, { from: "bomber", isBomb: true });
/** The same in a process that the hostile app forks, and that ends with it. */
const bursts = (limit: Wall, codes: Codes): Attack[] => attacks(limit, codes, { isBomb: true });

/** Memory that is held and not mapped: only the kernel finds it, or a look at the descriptors. */
const HOLD = `for _ in range(160):
    os.write(held, b"x" * (4 << 20))
time.sleep(NOTICE_SECONDS)`;

/** Ways to use up shared resources. Each has an end, for hosts where nothing stops it. */
export const LIMITS: readonly Attack[] = [
  ...bombs("memory", {
    // The app says memory = 0.25: 640 MB are too much, and no machine misses them for a few seconds.
    "a memory bomb": `held = [b"x" * (4 << 20) for _ in range(160)]; time.sleep(30)`,
    "a memory bomb in a child": `child = os.fork()
if child == 0:
    held = [b"x" * (4 << 20) for _ in range(160)]
    time.sleep(30)
    os._exit(0)
require(os.waitpid(child, 0)[1] == 0)`,
    // The kernel calls such a process a zombie, and tells nothing of its memory where it is asked by the process's id.
    "a memory bomb in a process without its first thread": `def eat():
    held = [b"x" * (4 << 20) for _ in range(160)]
    time.sleep(30)
    os._exit(0)
child = os.fork()
if child == 0:
    threading.Thread(target=eat).start()
    call("exit", 0)
require(os.waitpid(child, 0)[1] == 0)`,
    "a filler of /dev/shm": `held = os.open("/dev/shm/" + filler, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)\n${HOLD}`,
    "a filler of /dev/shm without a name": `held = os.open("/dev/shm/" + filler, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
os.unlink("/dev/shm/" + filler)
${HOLD}`,
  }),
  // No process of the app holds it, so that below userns nothing but a control group knows whose it is.
  ...bombs("userns", { "a filler of /dev/shm that is left behind": `fill("/dev/shm/" + filler, 640, 0)` }),
  ...bombs("memory", {
    "a filler of a file in memory": `held = os.memfd_create(filler)\n${HOLD}`,
    "a filler of files in memory that are mapped in part": `import mmap
kept = []
for _ in range(160):
    kept.append(os.memfd_create(filler))
    os.write(kept[-1], b"x" * (4 << 20))
    kept.append(mmap.mmap(kept[-1], 4096))
time.sleep(NOTICE_SECONDS)`,
    // CLOSE_RANGE_UNSHARE: the thread's descriptors are its own from then on, and not among those of its process.
    "a filler of a file in memory that one thread holds": `def hold():
    call("close_range", 1 << 20, 1 << 20, 2)
    held = os.memfd_create(filler)
    for _ in range(160):
        os.write(held, b"x" * (4 << 20))
    time.sleep(NOTICE_SECONDS)
thread = threading.Thread(target=hold)
thread.start()
thread.join()`,
    "a filler of System V memory": `fill_segments(filler_key, 160)`,
    // Reads of memory that was never written take no memory but the tables that map it.
    "a bomb of page tables": `import mmap
page = mmap.PAGESIZE
most = (640 << 20) // page
held = mmap.mmap(-1, most * page * (page // 8), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
for at in range(most):
    held[at * page * (page // 8)]
time.sleep(NOTICE_SECONDS)`,
  }),
  // The app says cpu = 0.25. On a machine that is busy it gets no more than that anyway.
  ...bombs("cpu", {
    "a processor bomb": `began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 3:
    pass
require(time.process_time() - used > 1.5)`,
  }),
  // A replica may have 4,096 where there are control groups, and all of a user's processes 16,384 elsewhere.
  ...bursts("processes", {
    "a bomb of threads and forks": `import _thread, threading
threading.stack_size(64 * 1024)
try:
    for _ in range(17_000):
        _thread.start_new_thread(time.sleep, (30,))
except RuntimeError:
    require(False)
require(os.fork() != 0 or os._exit(0))`,
  }),
  ...bursts("open_files", {
    "a bomb of descriptors": `most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
null = os.open(os.devnull, os.O_RDONLY)
for _ in range(70_000):
    os.dup(null)`,
  }),
  ...bombs("service", {
    "a flood of log lines": `for number in range(100_000):
    print("flood", number, "x" * 80)
require(False)`,
  }),
  ...bombs("scratch", {
    "a disk filler in temporary files": `fill(os.environ.get("TMPDIR", "/tmp") + "/filler-" + tag, 60)`,
  }),
  // The last: nothing of the project starts until it is removed. Larger than the one before, whose end hides as much.
  ...bombs("storage", { "a disk filler in storage": `fill(own + "/filler", 200)` }),
];
