import { writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { storageFolder } from "../../src/host/data-folders.ts";
import { uuidBytes } from "../../src/kit/ids.ts";
import { serve } from "../support/command-line.ts";
import { RUNS_MAIN, WAIT_FOR_ASYNC, counted, range } from "../support/run-apps.ts";
import { ServedApps, serveApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { verifies } from "../verifies.ts";

/** Functions that stay at message 60 until `gate` is open. */
const ASYNC = `${WAIT_FOR_ASYNC}
async def ticking(upto, pause, gate=None):
    for i in range(1, upto + 1):
        yield "m%d" % i
        await asyncio.sleep(pause)
        if i == 60 and gate:
            await wait_for(gate)
`;
const DEF = `${RUNS_MAIN}
def ticking(upto, pause, gate=None):
    for i in range(1, upto + 1):
        yield "m%d" % i
        time.sleep(pause)
        if i == 60 and gate:
            wait_for(gate)
`;
const APPS = {
  def: { main: DEF, toml: "[scaling]\nmax_replicas = 1\n" },
  looped: { main: ASYNC, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n" },
};

/** Calls a function as a client does who means to come back. */
function start(served: ServedApps, call: string, body: object): StreamReader {
  const headers = { "x-disconnect": "continue" };
  return new StreamReader({
    url: `${served.url}/${call}`,
    token: served.token,
    body: JSON.stringify(body),
    headers,
  });
}

/** Comes back to a run after the last message it has. */
function comeBack(served: ServedApps, app: string, runId: string, after: number): StreamReader {
  return new StreamReader({
    url: `${served.url}/${app}/runs/${runId}/events`,
    token: served.token,
    method: "GET",
    headers: { "last-event-id": String(after) },
    body: "",
  });
}

// oxlint-disable-next-line no-explicit-any
async function record(served: ServedApps, app: string, runId: string): Promise<any> {
  const headers = { authorization: `Bearer ${served.token}` };
  return await (await fetch(`${served.url}/${app}/runs/${runId}`, { headers })).json();
}

/** Reads so many messages and is killed: the connection ends without a word. */
async function dieAt(reader: StreamReader, count: number): Promise<string> {
  await reader.hasMessages(count);
  const { runId } = reader;
  reader.vanish();
  await until("the client is dead", () => reader.isClosed);
  return runId;
}

async function expectRest(reader: StreamReader, after: number, upto: number): Promise<void> {
  await reader.ended();
  expect(reader.numbers).toEqual(range(after + 1, upto));
  expect(reader.data.slice(0, -1)).toEqual(counted(upto, after));
  expect(reader.end).toMatchObject({ id: upto + 1, record: { status: "success", statusCode: 200 } });
}

const SHORT_UPTO = 200;
/** Of 500 bytes each, and a part of a transcript holds 16 kB. */
const LONG_UPTO = process.env["MILLRACE_FAULTS"] === "full" ? 20_000 : 4_000;
const LONG_SIZE = 500;

// One service for all of it, which is stopped once and killed once: a start of it costs more than the rest.
verifies(
  ["runs.events.resume", "stream.leave.continue"],
  "a killed client comes back while its run goes on, after it ended, after a restart and after a kill -9 of the service",
  async () => {
    const served = await serveApps(APPS, { MILLRACE_ISOLATION: "none" });
    const runIds = new Map<string, string>();
    for (const app of ["def", "looped"]) runIds.set(app, await expectResumed(served, app));
    await expectResumedAgainAndAgain(served);

    expect(await served.command.interrupt()).toBe(0);
    const again = await restarted(served);
    for (const [app, runId] of runIds) {
      for (const after of [40, 0]) {
        await expectRest(comeBack(again, app, runId, after), after, SHORT_UPTO);
      }
      expect((await comeBack(again, app, runId, SHORT_UPTO + 1).ended()).head?.status).toBe(204);
      expect((await record(again, app, runId)).result).toEqual(counted(SHORT_UPTO));
    }

    const places = [40, 41, LONG_UPTO / 4, LONG_UPTO - 1];
    const longId = await expectLongResumed(again, places);
    await onDisk(again, longId);
    again.command.signal("SIGKILL");
    await again.command.exited;
    const restart = await restarted(again);
    for (const after of [0, ...places]) await expectLong(comeBack(restart, "def", longId, after), after);
  },
);

/** A client that is killed at message 40, and comes back under way and after the end. */
async function expectResumed(served: ServedApps, app: string): Promise<string> {
  const call = { upto: SHORT_UPTO, pause: 0, gate: "gate" };
  const runId = await dieAt(start(served, `${app}/ticking`, call), 40);
  expect((await record(served, app, runId)).status).toBe("running");
  const underWay = comeBack(served, app, runId, 40);
  await underWay.hasMessages(1);
  const storage = storageFolder(path.basename(served.url), path.join(served.directory, "data"));
  writeFileSync(path.join(storage, `${app}.gate`), "");
  await expectRest(underWay, 40, SHORT_UPTO);
  await expectRest(comeBack(served, app, runId, 40), 40, SHORT_UPTO);
  expect((await comeBack(served, app, runId, SHORT_UPTO + 1).ended()).head?.status).toBe(204);
  return runId;
}

/** A client that is killed on its way back too. */
async function expectResumedAgainAndAgain(served: ServedApps): Promise<void> {
  const body = { upto: SHORT_UPTO, pause: 0.005 };
  const runId = await dieAt(start(served, "def/ticking", body), 40);
  const seen: number[] = range(1, 40);
  while (seen.length + 25 < SHORT_UPTO) {
    const reader = comeBack(served, "def", runId, seen.length);
    await dieAt(reader, 25);
    seen.push(...reader.numbers);
  }
  const last = comeBack(served, "def", runId, seen.length);
  await last.ended();
  expect([...seen, ...last.numbers]).toEqual(range(1, SHORT_UPTO));
}

/** A transcript of many parts, read on from several places while it grows and when it is whole. */
async function expectLongResumed(served: ServedApps, places: readonly number[]): Promise<string> {
  const runId = await dieAt(start(served, "def/count", { upto: LONG_UPTO, size: LONG_SIZE }), 40);
  const underWay = places.map((after) => comeBack(served, "def", runId, after));
  for (const [i, reader] of underWay.entries()) await expectLong(reader, places[i] ?? 0);
  await until("the run has ended", async () => (await record(served, "def", runId)).status === "success");
  for (const after of places) await expectLong(comeBack(served, "def", runId, after), after);
  return runId;
}

async function expectLong(reader: StreamReader, after: number): Promise<void> {
  await reader.ended();
  expect(reader.numbers).toEqual(range(after + 1, LONG_UPTO));
  const isRight = reader.data.slice(0, -1).every((data, i) => {
    return data.length === LONG_SIZE && data.startsWith(`${after + i + 1} `);
  });
  expect(isRight).toBe(true);
  expect(reader.end).toMatchObject({ id: LONG_UPTO + 1, record: { status: "success" } });
}

/** Waits until a run's record, written behind, is in the database of the service. */
async function onDisk(served: ServedApps, runId: string): Promise<void> {
  const database = new DatabaseSync(path.join(served.directory, "data", "millrace.db"), { readOnly: true });
  const find = database.prepare("SELECT 1 FROM runs WHERE id = ?");
  try {
    await until("the record is stored", () => find.get(uuidBytes(runId)) !== undefined);
  } finally {
    database.close();
  }
}

/** The same data directory, served again. */
async function restarted(served: ServedApps): Promise<ServedApps> {
  const { command, apiUrl } = await serve(path.join(served.directory, "data"), {
    MILLRACE_ISOLATION: "none",
  });
  const { pathname } = new URL(served.url);
  return new ServedApps(command, served.directory, `${apiUrl}${pathname}`, served.token);
}
