import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { dice } from "../support/dice.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { descriptorsOf } from "../support/process-tree.ts";
import { serveApps, type ServedApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { verifies } from "../verifies.ts";

/** The ledger: a line when a generator is entered, unless it is cancelled in that moment, and one from its finally. */
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

LEDGER = os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger-" + os.environ["APP_NAME"])

def write(sign, run_id):
    with open(LEDGER, "a") as ledger:
        ledger.write(sign + run_id + "\\n")

def run(run_id, pause):
    try:
        # Within: a cancel raises in a def at any instruction, between this line and a try below it too.
        write("+", run_id)
        while True:
            yield "x" * 200
            time.sleep(pause)
    finally:
        write("-", run_id)

MEETING = os.path.join(os.environ["PERSISTENT_STORAGE"], "meeting-" + os.environ["APP_NAME"])

def meet(wanted):
    with open(MEETING, "a") as meeting:
        meeting.write("x")
    yield "present"
    while os.path.getsize(MEETING) < wanted:
        time.sleep(0.005)
    yield "all here"
`;

const WAVES = { minimal: 1, short: 4, full: 20 }[FAULT_LENGTH];
/** How many readers of each app come in a wave, and how many slots it has; 250 readers in all. */
const APPS = {
  looped: { readers: 224, slots: 200 },
  threads: { readers: 20, slots: 20 },
  single: { readers: 6, slots: 2 },
} as const;
type App = keyof typeof APPS;
const NAMES = Object.keys(APPS) as App[];

/** Opens a stream and goes: before its head, in its midst, politely or not, reading or not. */
async function comeAndGo(served: ServedApps, app: string, roll: (below: number) => number): Promise<boolean> {
  const reader = new StreamReader({
    url: `${served.url}/${app}/run`,
    token: served.token,
    body: JSON.stringify({ pause: roll(0.02) }),
    headers: roll(2) < 1 ? {} : { "accept-encoding": "gzip" },
  });
  const [isPolite, isEarly, isDeaf] = [roll(2) < 1, roll(3) < 1, roll(4) < 1];
  const [messages, turns] = [Math.ceil(roll(8)), roll(200)];
  // Whether or not it has been heard, or a slot been free for it.
  if (isEarly) await once(reader.socket, "connect");
  else await reader.hasMessages(messages);
  if (isDeaf) reader.socket.pause();
  const waits = isEarly || isDeaf ? turns : 0;
  for (let turn = 0; turn < waits; turn++) await setImmediate();
  if (isPolite) reader.leave();
  else reader.vanish();
  await until("it is closed on this side", () => reader.isClosed);
  return !isEarly;
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

/** Takes every slot of every app at once: each stream ends when as many have come as are wanted. */
async function meet(served: ServedApps, round: number): Promise<void> {
  for (const app of NAMES) {
    const { slots } = APPS[app];
    const { token } = served;
    const body = JSON.stringify({ wanted: slots * round });
    const url = `${served.url}/${app}/meet`;
    const readers = Array.from({ length: slots }, () => new StreamReader({ url, token, body }));
    for (const reader of readers) expect((await reader.ended()).data).toEqual(["present", "all here"]);
    for (const reader of readers) reader.leave();
  }
}

/** Connections that the service still holds at its address. */
function connectionsOf(served: ServedApps): number {
  const port = Number(new URL(served.url).port).toString(16).toUpperCase().padStart(4, "0");
  // 0A is the listener; in 06, TIME_WAIT, only the kernel still knows of it.
  const row = new RegExp(`^ *\\d+: \\w+:${port} \\w+:\\w+ (?!0A|06)`, "gm");
  return readFileSync("/proc/net/tcp", "utf8").match(row)?.length ?? 0;
}

const socketsOf = ({ command }: ServedApps): number =>
  [...descriptorsOf(command.pid).values()].filter((target) => target.startsWith("socket:")).length;

verifies(
  "stream.leave",
  `${250 * WAVES} readers vanish at random moments: every finally ran, slots and descriptors are back`,
  async () => {
    const looped = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${APPS.looped.slots}\n`;
    const threads = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${APPS.threads.slots}\n`;
    const served = await serveApps(
      {
        looped: { main: ASYNC, toml: looped },
        threads: { main: DEF, toml: threads },
        single: { main: DEF, toml: "[scaling]\nmax_replicas = 2\n" },
      },
      { MILLRACE_ISOLATION: "none" },
    );
    // Every replica is up, with its connections.
    await meet(served, 1);
    await until("the callers have gone", () => connectionsOf(served) === 0);
    const before = socketsOf(served);

    const roll = dice(7);
    const wave = NAMES.flatMap((app) => Array.from({ length: APPS[app].readers }, () => app));
    expect(wave).toHaveLength(250);
    const wereInside = new Map<App, number>(NAMES.map((app) => [app, 0]));
    for (let i = 0; i < WAVES; i++) {
      const visits = wave.map(async (app) => {
        const wasInside = await comeAndGo(served, app, roll);
        if (wasInside) wereInside.set(app, (wereInside.get(app) ?? 0) + 1);
      });
      await Promise.all(visits);
    }
    await until("the callers have gone", () => connectionsOf(served) === 0);
    await until("every finally has run", () => isSettled(served));

    await meet(served, 2);
    await until("the descriptors are back", () => connectionsOf(served) === 0 && socketsOf(served) <= before);
    for (const app of NAMES) {
      const { entered, left } = ledger(served, app);
      // Those who went before their turn never entered.
      expect(entered.length).toBeGreaterThanOrEqual(wereInside.get(app) ?? 0);
      expect(wereInside.get(app)).toBeGreaterThan(0);
      expect(new Set(left).size).toBe(left.length);
      expect(entered.filter((id) => !left.includes(id))).toEqual([]);
      // An async def is cancelled where it awaits, never while it writes that it was entered.
      if (app === "looped") expect(left).toEqual(entered);
    }
  },
);

function isSettled(served: ServedApps): boolean {
  return NAMES.every((app) => {
    const { entered, left } = ledger(served, app);
    const gone = new Set(left);
    return entered.every((id) => gone.has(id));
  });
}
