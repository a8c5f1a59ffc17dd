import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";

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
