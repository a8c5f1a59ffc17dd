import { randomUUID } from "node:crypto";
import { until } from "../../support/until.ts";
import type { TestPool } from "../../support/pool.ts";

const LISTS = `
import asyncio, json, os, time
from millrace import END, SKIP

def hold(note, gate):
    open(note, "w").close()
    while not os.path.exists(gate):
        time.sleep(0.002)

# async
def add(n: list[int], by: list[int] = 1, run_id: list[str] = ()):
    return [{"sum": a + b, "size": len(n), "place": place, "run": run} for place, (a, b, run) in enumerate(zip(n, by, run_id))]

# async
def first(a, b=7, /, *, c=None):
    return tuple([x, y, z] for x, y, z in zip(a, b, c))

# async
def items(what):
    def item(each):
        if each == "raises": return ValueError("its own")
        if each == "not json": return {"a": {1}}
        if each == "large": return "x" * 2000
        if each == "teapot": return {"status_code": 418, "body": each}
        if each == "strange": return Strange()
        if each == "exits": return SystemExit(3)
        return each
    return [item(each) for each in what]

class Strange:
    def model_dump(self, mode):
        raise LookupError("while it is encoded")

# async
def picky(n, note):
    with open(note[0], "a") as file:
        file.write("".join("%s " % each for each in n) + "\\n")
    bad = [each for each in n if each < 0]
    if bad:
        n.clear()
        raise ValueError("bad %s" % bad)
    return [10 * each for each in n]

# async
def strict(n, note):
    with open(note[0], "a") as file:
        file.write("".join("%s " % each for each in n) + "\\n")
    raise ValueError("no")

# async
def wrong(kind):
    return {"short": [1], "long": [1] * 9, "text": "abc", "dict": {"a": 1}, "none": None}[kind[0]]

# async
def wait(n, note, gate):
    try:
        with open(note[0], "a") as file:
            file.write("".join("%s " % each for each in n) + "\\n")
        while not os.path.exists(gate[0]):
            time.sleep(0.002)
        if -1 in n:
            raise ValueError("bad")
        return n
    finally:
        open(note[0] + ".left", "a").write(".")

# async
def spoken(word):
    print("heard", *word)
    return word

# async
def pid(n):
    return [os.getpid() for _ in n]
`;

const STREAMS = `
# async
def count(n, size=0):
    """Each call gets the numbers from 1 to its n."""
    step = 0
    while True:
        step += 1
        yield [END if step > most else "x" * wide if wide else step for most, wide in zip(n, size)]

# async
def once(n):
    yield [each for each in n]

# async
def sparse(n):
    for step in range(max(n)):
        yield [step if step % each == 0 else SKIP for each in n]

# async
def never(n):
    if not n: yield []

# async
def mixed(what):
    yield ["first" for _ in what]
    yield [{"raises": ValueError("its own"), "not json": {1}, "large": "x" * 200000, "end": END, "skip": SKIP}.get(each, each) for each in what]
    yield ["last" for _ in what]

# async
def early(n):
    if -1 in n:
        raise ValueError("bad")
    yield [each for each in n]
    yield [10 * each for each in n]

# async
def late(n):
    yield [each for each in n]
    yield [END if each == 0 else SKIP for each in n]
    raise ValueError("bad")

# async
def wrong_yield(n):
    yield n
    yield n[1:]

# async
def endless(n, note, size=0):
    made = 0
    try:
        while True:
            made += 1
            with open(note[0] + ".new", "w") as file:
                file.write(str(made))
            os.rename(note[0] + ".new", note[0])
            yield ["x" * wide if wide else each for each, wide in zip(n, size)]
            time.sleep(0.001)
    finally:
        open(note[0] + ".left", "a").write(".")
`;

/** The functions that a text defines behind a line `# async`. */
const functionsOf = (text: string): string[] =>
  [...text.matchAll(/^# async\ndef (\w+)/gm)].map(([, name = ""]) => name);

/** Functions of batches, by `def` or `async def`. */
export function batchApp(isAsync: boolean, more = ""): string {
  const text = LISTS + STREAMS + more;
  if (!isAsync) return text;
  const [top = "", ...rest] = text.split("# async\n");
  const made = rest.map((each) =>
    each.replace(/^def /, "async def ").replaceAll("time.sleep(", "await asyncio.sleep("),
  );
  return [top, ...made].join("");
}

/** Their settings; nothing waits for more calls. */
export function batchSettings(concurrency: number, more = ""): string {
  const tables = functionsOf(LISTS + STREAMS + more).map((name) => `[batching.${name}]\nmax_wait = "0s"\n`);
  return `
[scaling]
max_replicas = 1
replica_concurrency = ${concurrency}
[limits]
max_result = "1KiB"
max_chunk = "128KiB"
${tables.join("").replace("[batching.strict]\n", '[batching.strict]\non_error = "fail"\n').replace("[batching.count]\n", "[batching.count]\nmax_size = 100\n")}`;
}

/** The ways of running that a harness has: what they are called, whether the app is `async def`, its concurrency. */
export const WAYS = [
  ["def, one at a time", false, "", 1],
  ["def, several at a time", false, "", 4],
  ["def beside async def", false, "\nasync def unused(): pass\n", 4],
  ["async def", true, "", 1],
  ["async def, several at a time", true, "", 4],
] as const;

/** Makes calls while all of a replica's slots are taken, so that those of one function leave together. */
export async function together<Made>(pool: TestPool, make: () => Made): Promise<Made> {
  const name = randomUUID();
  const slots = pool.scaling.replicaConcurrency;
  const holders = Array.from({ length: slots }, (_, index) =>
    pool.submit("hold", { note: `${name}.${index}`, gate: name }),
  );
  const areHeld = (): boolean => holders.every((_, index) => pool.has(`${name}.${index}`));
  await until("all slots are held", areHeld);
  const made = make();
  pool.leave(name);
  await Promise.all(holders.map(({ ended }) => ended));
  return made;
}
