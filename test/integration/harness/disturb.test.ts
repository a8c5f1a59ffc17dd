import { expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { descriptorsOf, isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import multiprocessing, os, signal, subprocess, sys, threading, time

def echo(x):
    return x

def talk():
    print("out"); print("err", file=sys.stderr)
    sys.stdout.write("no end of line")
    sys.stdout.flush()
    print("\\x01\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x04{}", "\\ud800", sep="\\0")
    os.write(1, b"\\x05\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x04raw!!")
    sys.stdout.buffer.write(b"bytes\\n")
    print(sys.stdout.fileno(), sys.stdout.isatty(), sys.stdout.encoding)
    return "said"

def subprocess_speaks():
    done = subprocess.run(["sh", "-c", "echo to stdout; echo to stderr >&2; cat"], stdin=subprocess.DEVNULL)
    caught = subprocess.run(["echo", "caught"], stdout=subprocess.PIPE)
    return [done.returncode, caught.stdout.decode()]

KEPT = []

def subprocess_stays():
    child = subprocess.Popen(["sleep", "1000"], close_fds=False)
    KEPT.append(child)
    return child.pid

def forked_returns():
    pid = os.fork()
    if pid == 0:
        return "the child's answer"
    return ["the parent's answer", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]

def forked_raises():
    pid = os.fork()
    if pid == 0:
        raise RuntimeError("in the child")
    os.waitpid(pid, 0)
    return "parent"

def forked_exits():
    pid = os.fork()
    if pid == 0:
        sys.exit(3)
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1])

def forked_stays():
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    return pid

def forked_ends():
    """A child that waits is ended by SIGTERM, as any child is."""
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    os.kill(pid, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])

def square(x):
    return x * x

def pooled():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(square, range(5))

def close_standard():
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    return "closed"

def print_closed():
    print("nobody hears"); print("this", file=sys.stderr); sys.stdout.flush()
    opened = os.open("/dev/null", os.O_RDWR)
    os.close(opened)
    return opened

def close_objects():
    sys.stdin.close(); sys.stdout.close(); sys.stderr.close()
    print("still"); return "closed"

def replace_streams():
    sys.stdout = sys.stderr = None
    return "replaced"

def threads_stay():
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(1000,)).start()
    return threading.active_count()
`;

const ONE = "[scaling]\nmax_replicas = 1\n";
const MODES = { serial: ONE, threads: `${ONE}replica_concurrency = 4\n`, looped: ONE };
const LOOPED = `${MAIN}\nasync def anything():\n    return 1\n`;

const service = sharedService(
  Object.fromEntries(
    Object.entries(MODES).map(([name, toml]) => [name, { main: name === "looped" ? LOOPED : MAIN, toml }]),
  ),
  WITHOUT_WALLS,
);

// oxlint-disable-next-line no-explicit-any
async function result(app: string, functionName: string, body: unknown = {}): Promise<any> {
  const answer = await service().call(app, body, { functionName });
  expect([functionName, answer.status, answer.text]).toEqual([functionName, 200, expect.any(String)]);
  return answer.json.result;
}

/** The replica that answers before and after is one and the same, and answers right. */
async function undisturbed(app: string, disturb: () => Promise<void>): Promise<void> {
  await result(app, "echo", { x: 1 });
  const pids = () => [...(service().apps.get(app)?.pool.replicas ?? [])].map(({ pid }) => pid);
  const before = pids();
  await disturb();
  for (let x = 0; x < 5; x++) expect(await result(app, "echo", { x })).toBe(x);
  expect(pids()).toEqual(before);
}

const EVERY = Object.keys(MODES);

verifies("show.disturb", "prints of every kind disturb nothing, and each line arrives", async () => {
  for (const app of EVERY) {
    await undisturbed(app, async () => expect(await result(app, "talk")).toBe("said"));
    const heard = (text: string) =>
      service().logs.some((line) => line.appName === app && line.text.includes(text));
    for (const text of ["out", "err", "no end of line", "raw!!", "bytes", "1 False utf-8"]) {
      await until(`${app} said ${text}`, () => heard(text));
    }
  }
});

verifies("show.disturb", "a subprocess disturbs nothing, and inherits no connection", async () => {
  for (const app of EVERY) {
    await undisturbed(app, async () => {
      expect(await result(app, "subprocess_speaks")).toEqual([0, "caught\n"]);
      const pid: number = await result(app, "subprocess_stays");
      // Until it has become the other program it is a copy of the replica, and holds what that holds.
      await until("it holds nothing but its own 0, 1 and 2", () =>
        [...descriptorsOf(pid).keys()].every((descriptor) => descriptor <= 2),
      );
    });
    await until("its lines are here", () =>
      service().logs.some((line) => line.appName === app && line.text === "to stderr"),
    );
  }
});

verifies("show.disturb", "a fork disturbs nothing, whatever its child does", async () => {
  for (const app of EVERY) {
    await undisturbed(app, async () => {
      expect(await result(app, "forked_returns")).toEqual(["the parent's answer", 0]);
      expect(await result(app, "forked_raises")).toBe("parent");
      expect(await result(app, "forked_exits")).toBeTypeOf("number");
      expect(await result(app, "forked_ends")).toBe(15);
      const child: number = await result(app, "forked_stays");
      expect(isAlive(child)).toBe(true);
      // The door, at which nothing is to be had without a ticket, and an event loop's own pair are its to keep; the wire
      // and the control connection are not.
      const allowed = app === "looped" ? 3 : 1;
      await until("the child has let go of the connections", () => {
        const links = [...descriptorsOf(child)].filter(([number]) => number > 2).map(([, link]) => link);
        return links.filter((link) => link.startsWith("socket:")).length <= allowed;
      });
      expect(await result(app, "pooled")).toEqual([0, 1, 4, 9, 16]);
    });
  }
});

verifies("show.disturb", "closing descriptors 0, 1 and 2 disturbs nothing", async () => {
  for (const app of EVERY) {
    await undisturbed(app, async () => {
      expect(await result(app, "close_standard")).toBe("closed");
      // What is opened next may take a number below 3: it is the app's, and prints must not reach the wire.
      expect(await result(app, "print_closed")).toBeLessThan(3);
      expect(await result(app, "close_objects")).toBe("closed");
      expect(await result(app, "replace_streams")).toBe("replaced");
    });
  }
});

test("threads that a function leaves behind disturb nothing", async () => {
  for (const app of EVERY) {
    await undisturbed(app, async () => expect(await result(app, "threads_stay")).toBeGreaterThan(20));
  }
});
