import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import asyncio, dataclasses, datetime, decimal, enum, threading, uuid

class Colour(enum.Enum):
    RED = "red"
    DEEP = ("deep", 1)

class Level(enum.IntEnum):
    HIGH = 3

@dataclasses.dataclass
class Inner:
    when: datetime.datetime
    colour: Colour

@dataclasses.dataclass
class Outer:
    name: str
    inner: Inner

class Opaque:
    pass

class Failing:
    @property
    def __dataclass_fields__(self):
        raise RuntimeError("no")
    def isoformat(self):
        raise RuntimeError("no")

def circular():
    value = {"a": []}
    value["a"].append(value)
    return value

def deep(n=100000):
    value = []
    for _ in range(n):
        value = [value]
    return value

WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.timezone.utc)
VALUES = {
    "set": lambda: {"items": [1, {2, 3}]},
    "frozenset": lambda: frozenset([1]),
    "bytes": lambda: {"a": {"b": b"x"}},
    "bytearray": lambda: bytearray(b"x"),
    "nan": lambda: [1.0, float("nan")],
    "inf": lambda: {"x": float("inf")},
    "-inf": lambda: float("-inf"),
    "circular": circular,
    "deep": deep,
    "complex": lambda: 1 + 2j,
    "decimal": lambda: decimal.Decimal("1.5"),
    "opaque": lambda: {"list": [0, 0, Opaque()]},
    "failing": Failing,
    "tuple-key": lambda: {(1, 2): 3},
    "function": lambda: print,
    "class": lambda: Opaque,
    "huge": lambda: 10 ** 5000,
    "dataclass": lambda: Outer("n", Inner(WHEN, Colour.RED)),
    "datetime": lambda: [WHEN, WHEN.date(), WHEN.time(), datetime.datetime(2026, 1, 2)],
    "uuid": lambda: uuid.UUID(int=1),
    "enum": lambda: [Colour.RED, Colour.DEEP, Level.HIGH],
    "tuple": lambda: (1, (2,)),
    "number-keys": lambda: {1: "a", 2.5: "b", None: "c", True: "d"},
    "surrogate": lambda: "a\\ud800b",
    "unicode": lambda: "ü✓🙂\\u2028\\u0000",
    "none": lambda: None,
    "float": lambda: [1.0, 1e300, -0.0, 0.1],
}

def make(kind):
    return VALUES[kind]()

def where():
    return threading.current_thread() is threading.main_thread()

class Late:
    loop = None

async def loop_id():
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    if Late.loop is None:
        Late.loop, Late.lock = loop, asyncio.Lock()
    async with Late.lock:
        return loop is Late.loop

async def left_task():
    Late.done = asyncio.get_running_loop().create_task(asyncio.sleep(0.01, "kept"))

async def collect_task():
    return await Late.done

def plain(x):
    return x + 1

async def waiting(x):
    await asyncio.sleep(0.001)
    return x + 1

def own_loop():
    return asyncio.run(waiting(1))
`;
const SERIAL = MAIN.replaceAll(/^async def [^]*?(?=^\S)/gm, "").replace(/^def own_loop[^]*/m, "");

const service = sharedService({
  serial: { main: SERIAL, toml: "[scaling]\nmax_replicas = 1\n" },
  threads: { main: SERIAL, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n" },
  looped: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n" },
});

async function returned(kind: string, app = "serial"): Promise<unknown> {
  const answer = await service().call(app, { kind }, { functionName: "make" });
  expect(answer.text).toContain('"result"');
  return answer.json.result;
}

async function refused(kind: string, app = "serial"): Promise<string> {
  const answer = await service().call(app, { kind }, { functionName: "make" });
  expect([answer.status, answer.json.code]).toEqual([500, "result_not_json"]);
  expect(answer.headers.get("x-should-retry")).toBe("false");
  return answer.json.message;
}

verifies("run.sync.not-json", "a result that JSON cannot hold is 500 and names type and path", async () => {
  for (const app of ["serial", "threads", "looped"]) {
    expect(await refused("opaque", app)).toContain("result.list[2] is of type main.Opaque");
    expect(await refused("bytes", app)).toContain("result.a.b is of type bytes");
    expect(await returned("tuple", app)).toEqual([1, [2]]);
  }
});

verifies(
  "run.sync.not-json.kinds",
  "sets, bytes, NaN, infinities and circles are refused by name",
  async () => {
    expect(await refused("set")).toContain("result.items[1] is of type set");
    expect(await refused("frozenset")).toContain("result is of type frozenset");
    expect(await refused("bytearray")).toContain("bytearray");
    expect(await refused("nan")).toContain("result[1] is nan");
    expect(await refused("inf")).toContain("result.x is inf");
    expect(await refused("-inf")).toContain("result is -inf");
    expect(await refused("circular")).toContain("circular");
    expect(await refused("deep")).toContain("nested too deeply");
    expect(await refused("complex")).toContain("complex");
    expect(await refused("decimal")).toContain("decimal.Decimal");
    expect(await refused("failing")).toContain("main.Failing");
    expect(await refused("tuple-key")).toContain("key of type tuple");
    expect(await refused("function")).toContain("builtin_function_or_method");
    expect(await refused("class")).toContain("type");
    // After every refusal the same encoder still writes.
    expect(await returned("none")).toBeNull();
  },
);

verifies("run.sync.convert.dataclass", "dataclasses become objects, however deep", async () => {
  const expected = { name: "n", inner: { when: "2026-01-02T03:04:05.000678+00:00", colour: "red" } };
  for (const app of ["serial", "threads", "looped"])
    expect(await returned("dataclass", app)).toEqual(expected);
});

verifies("run.sync.convert.datetime", "datetimes, dates and times become ISO 8601", async () => {
  expect(await returned("datetime")).toEqual([
    "2026-01-02T03:04:05.000678+00:00",
    "2026-01-02",
    "03:04:05.000678",
    "2026-01-02T00:00:00",
  ]);
});

verifies("run.sync.convert.uuid", "UUIDs become their text", async () => {
  expect(await returned("uuid")).toBe("00000000-0000-0000-0000-000000000001");
});

verifies("run.sync.convert.enum", "Enums become their values", async () => {
  expect(await returned("enum")).toEqual(["red", ["deep", 1], 3]);
});

test("texts leave as UTF-8, and a lone surrogate as U+FFFD", async () => {
  expect(await returned("unicode")).toBe("ü✓🙂\u2028\0");
  expect(await returned("surrogate")).toBe("a\ufffdb");
});

test("floats keep their Python form, and keys that are numbers become texts", async () => {
  const answer = await service().call("serial", { kind: "float" }, { functionName: "make" });
  expect(answer.text).toContain('"result":[1.0,1e+300,-0.0,0.1]');
  expect(await returned("number-keys")).toEqual({ "1": "d", "2.5": "b", null: "c" });
});

test("an integer of more digits than Python writes is a clear refusal, not a crash", async () => {
  const answer = await service().call("serial", { kind: "huge" }, { functionName: "make" });
  // Python before 3.10.7 and 3.9.14 has no limit.
  expect(answer.text).toMatch(/"result":10{5000},|"code":"result_not_json".*digits/);
});

verifies("run.sync.def-and-async-def", "def and async def both work, in one app too", async () => {
  for (const functionName of ["plain", "waiting"]) {
    const answer = await service().call("looped", { x: 1 }, { functionName });
    expect(answer.json).toMatchObject({ result: 2 });
  }
  expect((await service().call("serial", { x: 1 }, { functionName: "plain" })).json).toMatchObject({
    result: 2,
  });
  // A def function beside the loop may run a loop of its own.
  expect((await service().call("looped", {}, { functionName: "own_loop" })).json).toMatchObject({
    result: 2,
  });
});

verifies(
  "run.sync.one-loop",
  "all async def calls of a replica share one loop, tasks left on it too",
  async () => {
    const calls = Array.from({ length: 20 }, () => service().call("looped", {}, { functionName: "loop_id" }));
    for (const { json } of await Promise.all(calls)) expect(json).toMatchObject({ result: true });
    await service().call("looped", {}, { functionName: "left_task" });
    const collected = await service().call("looped", {}, { functionName: "collect_task" });
    expect(collected.json).toMatchObject({ result: "kept" });
  },
);

test("at replica_concurrency = 1 a def function runs on the main thread", async () => {
  expect((await service().call("serial", {}, { functionName: "where" })).json).toMatchObject({
    result: true,
  });
});
