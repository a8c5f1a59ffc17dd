import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect } from "vitest";
import { uuidBytes } from "../../src/kit/ids.ts";
import { serve } from "../support/command-line.ts";
import { RUNS_MAIN, counted, range } from "../support/run-apps.ts";
import { ServedApps, serveApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { verifies } from "../verifies.ts";

const ASYNC = `
import asyncio

async def ticking(upto, pause):
    for i in range(1, upto + 1):
        yield "m%d" % i
        await asyncio.sleep(pause)
`;
const DEF = `${RUNS_MAIN}
def ticking(upto, pause):
    for i in range(1, upto + 1):
        yield "m%d" % i
        time.sleep(pause)
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

describe("a client that sent X-Disconnect: continue is killed at message 40", () => {
  for (const app of ["def", "looped"]) {
    verifies(
      ["runs.events.resume", "stream.leave.continue"],
      `and comes back while the run goes on, after it ended, and after a restart (${app})`,
      async () => {
        const served = await serveApps(APPS);
        const runId = await dieAt(start(served, `${app}/ticking`, { upto: 300, pause: 0.01 }), 40);
        expect((await record(served, app, runId)).status).toBe("running");
        await expectRest(comeBack(served, app, runId, 40), 40, 300);
        await expectRest(comeBack(served, app, runId, 40), 40, 300);
        expect((await comeBack(served, app, runId, 301).ended()).head?.status).toBe(204);

        expect(await served.command.interrupt()).toBe(0);
        const again = await restarted(served);
        await expectRest(comeBack(again, app, runId, 40), 40, 300);
        await expectRest(comeBack(again, app, runId, 0), 0, 300);
        expect((await comeBack(again, app, runId, 301).ended()).head?.status).toBe(204);
        expect((await record(again, app, runId)).result).toEqual(counted(300));
      },
    );
  }

  verifies("runs.events.resume", "and is killed again and again on its way back", async () => {
    const served = await serveApps(APPS);
    const runId = await dieAt(start(served, "def/ticking", { upto: 400, pause: 0.005 }), 40);
    const seen: number[] = range(1, 40);
    for (let i = 0; i < 8; i++) {
      const reader = comeBack(served, "def", runId, seen.length);
      await dieAt(reader, 25);
      seen.push(...reader.numbers);
    }
    const last = comeBack(served, "def", runId, seen.length);
    await last.ended();
    expect([...seen, ...last.numbers]).toEqual(range(1, 400));
  });
});

describe("a long transcript", () => {
  const SIZE = 500;
  const UPTO = 20_000;

  verifies(
    ["runs.events.resume", "stream.leave.continue"],
    "of many parts is read on from any place: under way, ended, and after a kill -9 of the service",
    async () => {
      const served = await serveApps(APPS);
      const body = { upto: UPTO, size: SIZE };
      const runId = await dieAt(start(served, "def/count", body), 40);
      const places = [40, 41, 5_000, 19_999];
      const underWay = places.map((after) => comeBack(served, "def", runId, after));
      for (const [i, reader] of underWay.entries()) await expectLong(reader, places[i] ?? 0);
      await until("the run has ended", async () => (await record(served, "def", runId)).status === "success");
      for (const after of places) await expectLong(comeBack(served, "def", runId, after), after);

      await onDisk(served, runId);
      served.command.signal("SIGKILL");
      await served.command.exited;
      const restart = await restarted(served);
      for (const after of [0, ...places]) await expectLong(comeBack(restart, "def", runId, after), after);
    },
  );

  async function expectLong(reader: StreamReader, after: number): Promise<void> {
    await reader.ended();
    expect(reader.numbers).toEqual(range(after + 1, UPTO));
    const isRight = reader.data.slice(0, -1).every((data, i) => {
      return data.length === SIZE && data.startsWith(`${after + i + 1} `);
    });
    expect(isRight).toBe(true);
    expect(reader.end).toMatchObject({ id: UPTO + 1, record: { status: "success" } });
  }
});

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
  const { command, apiUrl } = await serve(path.join(served.directory, "data"));
  const { pathname } = new URL(served.url);
  return new ServedApps(command, served.directory, `${apiUrl}${pathname}`, served.token);
}
