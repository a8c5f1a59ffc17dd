import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { HandClock } from "../../support/clocks.ts";
import { WAIT_FOR, WAIT_FOR_ASYNC, letGo } from "../../support/run-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { tcpEnd } from "../../support/tcp-table.ts";
import { verifies } from "../../verifies.ts";

/** Each run keeps notes in a file of its own: what it did, line by line. */
const NOTES = `
import os

def note(run_id, line):
    with open(run_id, "a") as notes:
        notes.write(line + "\\n")
`;

const DEF = `${NOTES}${WAIT_FOR}
def ticking(run_id):
    try:
        while True:
            yield "tick"
            time.sleep(0.02)
    finally:
        note(run_id, "closed")

def sleeping(run_id):
    try:
        yield "begun"
        time.sleep(3600)
    finally:
        note(run_id, "closed")

def computing(run_id):
    try:
        yield "begun"
        while True:
            pass
    finally:
        note(run_id, "closed")

def eager(run_id):
    try:
        while True:
            yield "x" * 1000
    finally:
        note(run_id, "closed")

def late(run_id):
    """Its caller leaves before it has yielded."""
    note(run_id, "begun")
    try:
        wait_for("go-on")
        yield "first"
        note(run_id, "went on")
    finally:
        note(run_id, "closed")

def returned(run_id):
    """Its caller leaves before anybody knows that it streams."""
    note(run_id, "begun")
    wait_for("return")
    return ticking(run_id)

def counted(run_id, count, size=1, gate=None):
    try:
        for number in range(count):
            yield "x" * size
            if gate:
                wait_for(gate)
        note(run_id, "all %d" % count)
    finally:
        note(run_id, "closed")

def plain():
    return "free"
`;

const ASYNC = `${NOTES}${WAIT_FOR_ASYNC}
async def ticking(run_id):
    try:
        while True:
            yield "tick"
            await asyncio.sleep(0.02)
    finally:
        note(run_id, "closed")

async def sleeping(run_id):
    try:
        yield "begun"
        await asyncio.sleep(3600)
    finally:
        note(run_id, "closed")

async def eager(run_id):
    try:
        while True:
            yield "x" * 1000
            await asyncio.sleep(0)
    finally:
        note(run_id, "closed")

async def counted(run_id, count, size=1, gate=None):
    try:
        for number in range(count):
            yield "x" * size
            if gate:
                await wait_for(gate)
        note(run_id, "all %d" % count)
    finally:
        note(run_id, "closed")

async def plain():
    return "free"
`;

const scaling = (concurrency: number) =>
  `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`;
// It stands still: what happens here happens at once, and not because something was waited for.
const clock = new HandClock();
const service = sharedService(
  {
    single: { main: DEF, toml: scaling(1) },
    looped: { main: ASYNC, toml: scaling(8) },
    loopone: { main: ASYNC, toml: scaling(1) },
  },
  WITHOUT_WALLS,
  { clock },
);

const start = (app: string, functionName: string, body: object = {}, headers: Record<string, string> = {}) =>
  openStream(service(), app, body, { functionName, headers });

const live = (app: string) => service().apps.get(app);

function notes(app: string, runId: string): string[] {
  try {
    return readFileSync(path.join(service().bundleDir(app), runId), "utf8")
      .trim()
      .split("\n");
  } catch {
    return [];
  }
}

/** Calls in a replica's hands: taken slots. */
function slotsTaken(app: string): number {
  return [...(live(app)?.pool.replicas ?? [])].reduce((sum, { calls }) => sum + calls.size, 0);
}

/** Leaves, and waits until the service has closed its end too. */
async function leaveKnown(reader: StreamReader): Promise<void> {
  const [servicePort, port] = [Number(new URL(service().service.apiUrl).port), reader.socket.localPort ?? 0];
  reader.leave();
  await until("the service knows", () => tcpEnd(servicePort, port) === null);
}

async function record(app: string, id: string): Promise<Run | null> {
  await service().service.settle();
  return (await service().service.store.runs.find({ appNumber: live(app)?.app.number ?? 0, id })) ?? null;
}

const CASES = [
  ["single", "ticking"],
  ["single", "sleeping"],
  ["single", "computing"],
  ["loopone", "ticking"],
  ["loopone", "sleeping"],
  ["looped", "ticking"],
  ["looped", "sleeping"],
] as const;

for (const [app, functionName] of CASES) {
  verifies(
    ["stream.leave", "stream.leave.1s"],
    `a reader who leaves closes the generator and frees its slot before any time passes (${app}, ${functionName})`,
    async () => {
      const replicas = () => [...(live(app)?.pool.replicas ?? [])].map(({ id }) => id);
      const reader = start(app, functionName);
      await reader.hasMessages(1);
      const before = replicas();
      reader.leave();
      await until("its finally has run", () => notes(app, reader.runId).includes("closed"));
      await until("the slot is free", () => slotsTaken(app) === 0);
      expect((await service().call(app, {}, { functionName: "plain" })).json.result).toBe("free");
      // Closed by a word, not by the end of its process.
      expect(replicas()).toEqual(before);
      expect(await record(app, reader.runId)).toMatchObject({ state: "cancelled", statusCode: null });
    },
  );
}

for (const app of ["single", "looped"]) {
  verifies(
    "stream.leave",
    `a reader who stopped reading and then vanishes closes a generator that waits for it (${app})`,
    async () => {
      const reader = start(app, "eager");
      await reader.hasMessages(1);
      reader.socket.pause();
      reader.vanish();
      await until("its finally has run", () => notes(app, reader.runId).includes("closed"));
      await until("the slot is free", () => slotsTaken(app) === 0);
      expect(await record(app, reader.runId)).toMatchObject({ state: "cancelled" });
    },
  );
}

verifies("stream.leave", "a caller who leaves before the first chunk closes the generator too", async () => {
  for (const functionName of ["late", "returned"]) {
    const reader = start("single", functionName);
    await until("the run is there", () => slotsTaken("single") === 1);
    const [call] = [...(live("single")?.pool.replicas ?? [])].flatMap(({ calls }) => [...calls.values()]);
    const id = call?.runId ?? "";
    await until("it has begun", () => notes("single", id).includes("begun"));
    await leaveKnown(reader);
    if (functionName === "returned") letGo(service(), "single", "return");
    await until("the slot is free", () => slotsTaken("single") === 0);
    expect(notes("single", id)).not.toContain("went on");
    expect(await record("single", id)).toMatchObject({ state: "cancelled" });
  }
});

verifies("stream.leave.1s", "one of eight readers leaves, and the seven others read on", async () => {
  const readers = Array.from({ length: 8 }, () => start("looped", "ticking"));
  for (const reader of readers) await reader.hasMessages(2);
  const [first, ...others] = readers as [StreamReader, ...StreamReader[]];
  first.leave();
  await until("seven are left", () => slotsTaken("looped") === 7);
  expect(notes("looped", first.runId)).toEqual(["closed"]);
  const seen = others.map(({ messages }) => messages.length);
  for (const [place, reader] of others.entries()) await reader.hasMessages((seen[place] ?? 0) + 5);
  for (const reader of others) reader.leave();
  await until("none is left", () => slotsTaken("looped") === 0);
  for (const { runId } of others) expect(notes("looped", runId)).toEqual(["closed"]);
});

for (const app of ["single", "looped"]) {
  verifies(
    "stream.leave.continue",
    `with X-Disconnect: continue the generator runs on to its end (${app})`,
    async () => {
      const headers = { "x-disconnect": "Continue" };
      // The second sends far more than a generator may send unread.
      for (const body of [
        { count: 30, gate: "few" },
        { count: 2_000, size: 1000, gate: "many" },
      ]) {
        const reader = start(app, "counted", body, headers);
        await reader.hasMessages(1);
        await leaveKnown(reader);
        letGo(service(), app, body.gate);
        await until("the slot is free", () => slotsTaken(app) === 0);
        expect(notes(app, reader.runId)).toEqual([`all ${body.count}`, "closed"]);
        expect(await record(app, reader.runId)).toMatchObject({ state: "success", statusCode: 200 });
      }
    },
  );
}

test("with X-Disconnect: continue a caller may leave while the generator waits for it", async () => {
  const reader = start("single", "counted", { count: 20_000, size: 1000 }, { "x-disconnect": "continue" });
  await reader.hasMessages(1);
  reader.socket.pause();
  reader.vanish();
  await until("the slot is free", () => slotsTaken("single") === 0);
  expect(notes("single", reader.runId)).toEqual(["all 20000", "closed"]);
});

test("a reader who leaves after the end changes nothing", async () => {
  const reader = await start("single", "counted", { count: 3 }).ended();
  expect(reader.isWhole).toBe(true);
  reader.leave();
  expect((await service().call("single", {}, { functionName: "plain" })).status).toBe(200);
  expect(await record("single", reader.runId)).toMatchObject({ state: "success", statusCode: 200 });
});
