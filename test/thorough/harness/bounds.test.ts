import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MANY_FUNCTIONS = Array.from({ length: 1_001 }, (_, i) => `def f${i}():\n    return ${i}\n`).join("");
/** More than may be told with every docstring. */
const WORDY = Array.from(
  { length: 700 },
  (_, i) =>
    `def f${i}(a: "${"x".repeat(1_000)}" = "${"d".repeat(1_000)}"):\n    "${"w".repeat(4_000)}"\n    return ${i}\n`,
).join("");

const MAIN = `
import asyncio

class Long(Exception):
    pass

def run(a=1):
    return a

def key(length):
    return {"k" * length: float("nan")}

def fails(length):
    raise Long("\\U0001F600" * length)
`;

const ASYNC = `
import asyncio

async def run(n):
    await asyncio.sleep(0)
    return n

async def cancel_all():
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    return "cancelled"

async def slow():
    await asyncio.sleep(3600)
`;

const ONE = "[scaling]\nmax_replicas = 1\n";
const service = sharedService({
  app: { main: MAIN, toml: ONE },
  looped: { main: ASYNC, toml: `${ONE}replica_concurrency = 4\n` },
  many: { main: MANY_FUNCTIONS, toml: ONE },
  wordy: { main: WORDY, toml: ONE },
  broken: { main: `raise ValueError("x" * 1_000_000)`, toml: ONE },
});

const call = (app: string, functionName: string, body: unknown = {}, suffix = "") =>
  service().call(app, body, { functionName, suffix });

verifies(
  "wire.fields",
  "what an app has too much of is told within the bounds, and its replica lives",
  async () => {
    const many = await call("many", "f0");
    expect([many.status, many.json.code]).toEqual([503, "app_not_ready"]);
    expect(many.json.message).toContain("main.py has 1001 functions, but at most 1000 can be callable");
    expect((await call("wordy", "f699")).json).toMatchObject({ result: 699 });
    const document = await service().call("wordy", "", { functionName: "openapi.json", method: "GET" });
    expect(Object.keys(document.json.paths)).toHaveLength(700);
  },
);

test("of many arguments that do not fit the first are named and the rest counted, sync and async alike", async () => {
  const body = Object.fromEntries(
    Array.from({ length: 2_000 }, (_, i) => [`u${i}${"x".repeat(i % 300)}`, 1]),
  );
  const sync = await call("app", "run", body);
  const accepted = await call("app", "run", body, "?async=true");
  expect([sync.status, sync.json.code, sync.json.details.length]).toEqual([422, "invalid_arguments", 500]);
  expect(sync.json.message).toMatch(/; and 1500 more$/);
  expect(accepted.status).toBe(422);
  expect(accepted.json.details).toEqual(sync.json.details);
  expect(accepted.json.message).toBe(sync.json.message);
  // 32 MiB of them are as good.
  const huge = Object.fromEntries(Array.from({ length: 300_000 }, (_, i) => [`unknown${i}`, 1]));
  expect((await call("app", "run", huge)).json.details).toHaveLength(500);
  expect((await call("app", "run", huge, "?async=true")).json.details).toHaveLength(500);
  expect((await call("app", "run", {})).json).toMatchObject({ result: 1 });
});

test("a path to what JSON cannot hold, and an exception's text, may be as long as they like", async () => {
  const key = await call("app", "key", { length: 3_000_000 });
  expect([key.status, key.json.code, key.json.message.length]).toEqual([500, "result_not_json", 8_192]);
  const fails = await call("app", "fails", { length: 3_000_000 });
  expect([fails.status, fails.json.code]).toEqual([500, "app_error"]);
  expect(fails.json.message.length).toBeLessThan(9_000);
  const broken = await call("broken", "run");
  expect([broken.status, broken.json.code]).toEqual([503, "app_not_ready"]);
  expect(broken.json.message.length).toBeLessThan(9_000);
  expect((await call("app", "run", {})).json).toMatchObject({ result: 1 });
});

test("an app that cancels every task of its loop fails its calls, and keeps its replica", async () => {
  const pid = () => [...service().apps.get("looped")!.pool.replicas].map((replica) => replica.pid);
  await call("looped", "run", { n: 1 });
  const before = pid();
  const slow = call("looped", "slow");
  let cancelled = await call("looped", "cancel_all");
  expect(cancelled.json).toMatchObject({ result: "cancelled" });
  // It may have come before there was anything to cancel.
  const state = { isOver: false };
  void slow.finally(() => (state.isOver = true));
  while (!state.isOver) cancelled = await call("looped", "cancel_all");
  const answer = await slow;
  expect([answer.status, answer.json.code]).toEqual([500, "app_error"]);
  expect(pid()).toEqual(before);
});
