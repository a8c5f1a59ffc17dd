import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { descriptorsOf } from "../support/process-tree.ts";
import { serveApps } from "../support/serve-apps.ts";
import type { ServedApps } from "../support/serve-apps.ts";
import { until } from "../support/service.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { verifies } from "../verifies.ts";

/** The ledger: a line when a generator is entered, and one from its finally. */
const ASYNC = `
import asyncio
import os

LEDGER = os.open(os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger-looped"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

async def run(run_id, pause):
    os.write(LEDGER, b"+%s\\n" % run_id.encode())
    try:
        while True:
            yield "x" * 200
            await asyncio.sleep(pause)
    finally:
        await asyncio.sleep(0)
        os.write(LEDGER, b"-%s\\n" % run_id.encode())

PRESENT = 0

async def meet(wanted):
    global PRESENT
    PRESENT += 1
    yield "present"
    while PRESENT < wanted:
        await asyncio.sleep(0.005)
    yield "all here"
`;

const DEF = `
import os
import time

LEDGER = os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger-single")

def write(sign, run_id):
    with open(LEDGER, "a") as ledger:
        ledger.write(sign + run_id + "\\n")

def run(run_id, pause):
    write("+", run_id)
    try:
        while True:
            yield "x" * 200
            time.sleep(pause)
    finally:
        write("-", run_id)

MEETING = os.path.join(os.environ["PERSISTENT_STORAGE"], "meeting")

def meet(wanted):
    with open(MEETING, "a") as meeting:
        meeting.write("x")
    yield "present"
    while os.path.getsize(MEETING) < wanted:
        time.sleep(0.005)
    yield "all here"
`;

const WAVES = 6;
const WAVE = 100;

/** Reproducible moments. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 32) * below;
  };
}

/** Opens a stream and goes at some moment: before its head, in its midst, politely or not, reading or not. */
async function comeAndGo(served: ServedApps, app: string, roll: (below: number) => number): Promise<void> {
  const reader = new StreamReader({
    url: `${served.url}/${app}/run`,
    token: served.token,
    body: JSON.stringify({ pause: roll(0.02) }),
    headers: roll(2) < 1 ? {} : { "accept-encoding": "gzip" },
  });
  if (roll(4) < 1) reader.socket.pause();
  const isPolite = roll(2) < 1;
  await new Promise((resolve) => setTimeout(resolve, roll(300)));
  if (isPolite) reader.leave();
  else reader.vanish();
  await until("it is closed on this side", () => reader.isClosed);
}

function ledger(served: ServedApps, app: string): { entered: string[]; left: string[] } {
  const [file] = readdirSync(served.directory, { recursive: true, encoding: "utf8" }).filter(
    (name) => path.basename(name) === `ledger-${app}`,
  );
  const lines = file === undefined ? [] : readFileSync(path.join(served.directory, file), "utf8").split("\n");
  const signed = (sign: string): string[] =>
    lines
      .filter((line) => line.startsWith(sign))
      .map((line) => line.slice(1))
      .toSorted();
  return { entered: signed("+"), left: signed("-") };
}

/** A stream that ends when as many of its kind are open as are wanted. */
const meet = (served: ServedApps, app: string, wanted: number) =>
  new StreamReader({
    url: `${served.url}/${app}/meet`,
    token: served.token,
    body: JSON.stringify({ wanted }),
  });

verifies(
  ["stream.leave", "stream.leave.1s"],
  "600 readers vanish at random moments: every finally ran, slots and descriptors are back",
  async () => {
    const served = await serveApps({
      looped: { main: ASYNC, toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${WAVE}\n` },
      single: { main: DEF, toml: "[scaling]\nmax_replicas = 2\n" },
    });
    const sockets = () =>
      [...descriptorsOf(served.command.pid).values()].filter((target) => target.startsWith("socket:")).length;
    const roll = dice(7);
    let before = 0;
    for (let wave = 0; wave < WAVES; wave++) {
      const places = Array.from({ length: WAVE }, (_, place) => (place < 4 ? "single" : "looped"));
      await Promise.all(places.map((app) => comeAndGo(served, app, roll)));
      if (wave > 0) continue;
      // The first wave has brought up whatever stays: replicas with their connections.
      await until("the first wave is over", () => isSettled(served));
      before = sockets();
    }
    const endedAt = performance.now();
    await until("every finally has run", () => isSettled(served));
    expect(performance.now() - endedAt).toBeLessThan(2_000);
    const { entered, left } = ledger(served, "looped");
    expect(entered.length).toBeGreaterThan((WAVES * WAVE) / 2);
    expect(left).toEqual(entered);
    expect(new Set(left).size).toBe(left.length);
    const single = ledger(served, "single");
    expect(single.entered.length).toBeGreaterThan(0);
    expect(single.left).toEqual(single.entered);

    await until("the descriptors are back", () => sockets() <= before);
    // Every slot is there: as many streams as there are slots run at once.
    for (const [app, slots] of [
      ["looped", WAVE],
      ["single", 2],
    ] as const) {
      const again = Array.from({ length: slots }, () => meet(served, app, slots));
      for (const reader of again) expect((await reader.ended()).data).toEqual(["present", "all here"]);
      for (const reader of again) reader.leave();
    }
  },
);

function isSettled(served: ServedApps): boolean {
  return ["looped", "single"].every((app) => {
    const { entered, left } = ledger(served, app);
    return entered.length === left.length;
  });
}
