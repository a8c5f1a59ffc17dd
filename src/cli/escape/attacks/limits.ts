import { attack } from "../attack.ts";
import type { Attack, Wall } from "../attack.ts";

/** What takes more than its share. Not tried on a service that others use. */
const bomb = (stoppedBy: Wall, name: string, code: string): Attack => ({
  ...attack(stoppedBy, name, code),
  from: "bomber",
  isBomb: true,
});

/** The same in a process that the hostile app forks: it is over with that. */
const burst = (stoppedBy: Wall, name: string, code: string): Attack => ({
  ...attack(stoppedBy, name, code),
  isBomb: true,
});

/** Ways to take from others what all share. Each has an end, for hosts where nothing stops it. */
export const LIMITS: readonly Attack[] = [
  // The app says memory = 0.25: 640 MB are too much, and no machine misses them for a few seconds.
  bomb("memory", "a memory bomb", `held = [b"x" * (4 << 20) for _ in range(160)]; time.sleep(30)`),
  bomb(
    "memory",
    "a memory bomb in a child",
    `child = os.fork()
if child == 0:
    held = [b"x" * (4 << 20) for _ in range(160)]
    time.sleep(30)
    os._exit(0)
require(os.waitpid(child, 0)[1] == 0)`,
  ),
  // The kernel calls such a process a zombie, and tells nothing of its memory where it is asked by the process's id.
  bomb(
    "memory",
    "a memory bomb in a process without its first thread",
    `def eat():
    held = [b"x" * (4 << 20) for _ in range(160)]
    time.sleep(30)
    os._exit(0)
child = os.fork()
if child == 0:
    threading.Thread(target=eat).start()
    call("exit", 0)
require(os.waitpid(child, 0)[1] == 0)`,
  ),
  // The app says cpu = 0.25. On a machine that is busy it gets no more than that anyway.
  bomb(
    "cpu",
    "a processor bomb",
    `began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 3:
    pass
require(time.process_time() - used > 1.5)`,
  ),
  // A replica may have 4,096 where there are control groups, and all of a user's processes 16,384 elsewhere.
  burst(
    "processes",
    "a bomb of threads and forks",
    `import _thread, threading
threading.stack_size(64 * 1024)
try:
    for _ in range(17_000):
        _thread.start_new_thread(time.sleep, (30,))
except RuntimeError:
    require(False)
require(os.fork() != 0 or os._exit(0))`,
  ),
  burst(
    "open_files",
    "a bomb of descriptors",
    `most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
null = os.open(os.devnull, os.O_RDONLY)
for _ in range(70_000):
    os.dup(null)`,
  ),
  bomb(
    "service",
    "a flood of log lines",
    `for number in range(100_000):
    print("flood", number, "x" * 80)
require(False)`,
  ),
  bomb(
    "scratch",
    "a disk filler in temporary files",
    `fill(os.environ.get("TMPDIR", "/tmp") + "/filler-" + tag, 60)`,
  ),
  // The last: nothing of the project starts until it is removed. Larger than the one before, whose end hides as much.
  bomb("storage", "a disk filler in storage", `fill(own + "/filler", 200)`),
];
