import { expect, test } from "vitest";
import { expectAllSlots, storm } from "../../support/cancel-storm.ts";
import { testPool } from "../../support/pool.ts";
import { verifies } from "../../verifies.ts";

const CANCELS = Number(process.env["STORM_CANCELS"] ?? 2_500);
const SHOWN = CANCELS.toLocaleString("en");

const DEF = `
import sys
import time

sys.setswitchinterval(0.000001)  # Threads take turns as often as they can: more places for a race.

COUNT = {"interrupted": 0, "met": 0}

def echo(n):
    return n

def busy(n, ms):
    try:
        end = time.perf_counter() + ms / 1000
        while time.perf_counter() < end:
            sum(range(100))
            time.sleep(0.00002)  # Lets the other threads in: a cancel comes by one of them.
    except BaseException:
        COUNT["interrupted"] += 1
        raise
    return n

def nap(n, ms):
    time.sleep(ms / 1000)
    return n

def forever(n):
    while True:
        time.sleep(0.0005)

def fail(n):
    raise ValueError(n)

def interrupted():
    return COUNT["interrupted"]

def meet(size):
    COUNT["met"] += 1
    end = time.monotonic() + 5
    while COUNT["met"] < size and time.monotonic() < end:
        time.sleep(0.001)
    return COUNT["met"]
`;

const ASYNC = `
import asyncio
import time

COUNT = {"interrupted": 0, "met": 0}

async def echo(n):
    return n

async def busy(n, ms):
    try:
        end = time.perf_counter() + ms / 1000
        while time.perf_counter() < end:
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        COUNT["interrupted"] += 1
        raise
    return n

async def nap(n, ms):
    await asyncio.sleep(ms / 1000)
    return n

async def forever(n):
    while True:
        await asyncio.sleep(0.0005)

async def fail(n):
    raise ValueError(n)

async def interrupted():
    return COUNT["interrupted"]

async def meet(size):
    COUNT["met"] += 1
    end = time.monotonic() + 5
    while COUNT["met"] < size and time.monotonic() < end:
        await asyncio.sleep(0.001)
    return COUNT["met"]
`;

/** Ends without a word when every call that was not cancelled returned its own value. */
async function expectCalm(main: string, concurrency: number): Promise<void> {
  const toml = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`;
  const pool = await testPool({ main, toml });
  const seed = Number(process.env["STORM_SEED"] ?? Date.now() % 1_000_000);
  const report = await storm(pool, CANCELS, seed);
  const told = `STORM_SEED=${seed} ${JSON.stringify({ ...report, wrong: report.wrong.length })}`;
  expect({ told, wrong: report.wrong.slice(0, 5), exits: pool.exits }).toEqual({
    told,
    wrong: [],
    exits: [],
  });
  if (process.env["STORM_REPORT"]) process.stdout.write(`${told}\n`);
  await expectAllSlots(pool);
}

verifies("show.cancel", `${SHOWN} cancels at random moments touch no other call: def, one at a time`, () =>
  expectCalm(DEF, 1),
);

verifies("show.cancel", `${SHOWN} cancels at random moments touch no other call: def, eight at a time`, () =>
  expectCalm(DEF, 8),
);

verifies(
  "show.cancel",
  `${SHOWN} cancels at random moments touch no other call: async def, one at a time`,
  () => expectCalm(ASYNC, 1),
);

verifies(
  "show.cancel",
  `${SHOWN} cancels at random moments touch no other call: async def, eight at a time`,
  () => expectCalm(ASYNC, 8),
);

test(`${SHOWN} cancels at random moments touch no other call: def beside async def, four at a time`, () =>
  expectCalm(`${DEF}\nasync def beside():\n    return 1\n`, 4));
