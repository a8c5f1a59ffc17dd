import { writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { expect } from "vitest";
import { FAR_END } from "../../../src/gateway/events/feed.ts";
import { DATABASE_FILE } from "../../../src/store/upkeep/whole-database.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { holdWrites } from "../../support/held-writes.ts";
import { KillableService } from "../../support/killable-service.ts";
import { RUNS_MAIN, counted, range } from "../../support/run-apps.ts";
import { StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const TOML = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
/** So many chunks are stored when the service is killed, of so many that its readers have had. */
const STORED = 39;
const HAD = 48;
const INTERRUPTED = { status: "failure", statusCode: 503, error: { code: "interrupted" } };

/** The number of the last stored chunk of a run, looked for beside the running service. */
async function lastStored({ database, appNumber }: KillableService, id: string): Promise<number> {
  const { databaseUrl, dataDir } = database;
  const last = "select max(first_event + event_count) - 1 as last from transcripts";
  const uuid = id.replaceAll("-", "");
  if (databaseUrl !== null) {
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    const { rows } = await client.query<{ last: string | null }>(
      `${last} where app_number = ${appNumber} and id = decode('${uuid}', 'hex')`,
    );
    await client.end();
    return Number(rows[0]?.last ?? 0);
  }
  const sqlite = new DatabaseSync(path.join(dataDir, DATABASE_FILE), { readOnly: true });
  const row = sqlite.prepare(`${last} where app_number = ${appNumber} and id = x'${uuid}'`).get();
  sqlite.close();
  return Number(row?.["last"] ?? 0);
}

/** Opens a gate that a function of the app waits at. */
function letGo({ storageDir }: KillableService, gate: string): void {
  writeFileSync(path.join(storageDir, `app.${gate}`), "");
}

function events(service: KillableService, runId: string, after: number): StreamReader {
  return new StreamReader({
    url: `${service.appUrl}/runs/${runId}/events`,
    token: service.token,
    method: "GET",
    headers: { "last-event-id": String(after) },
    body: "",
  });
}

const gated = (gate: string) => ({ gate, before: STORED, after: HAD - STORED });
/** Where a function waits that has yielded all of them. */
const MAIN = `${RUNS_MAIN}
def counting(gate, before, after):
    yield from gated(gate, before, after)
    wait_for("never")
`;

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["runs.events.beyond", "runs.events.end-number"],
    `after kill -9 no reader takes what is lost for read, or a number for another's (${kind})`,
    async () => {
      const service = await KillableService.deploy(await databases.fresh(kind), { main: MAIN, toml: TOML });
      await service.start();
      const live = new StreamReader({
        url: `${service.appUrl}/counting`,
        token: service.token,
        headers: { "x-disconnect": "continue" },
        body: JSON.stringify(gated("gate")),
      });
      await live.hasMessages(STORED);
      const { runId } = live;
      const reader = events(service, runId, 0);
      await reader.hasMessages(STORED);
      await until("they are stored", async () => (await lastStored(service, runId)) === STORED);
      const letWrite = await holdWrites(service.database);
      letGo(service, "gate");
      await reader.hasMessages(HAD);
      expect(reader.numbers).toEqual(range(1, HAD));
      await service.kill();
      await letWrite();

      await service.start();
      expect(await service.ended(runId)).toMatchObject(INTERRUPTED);
      const read = async (after: number) => {
        const { head, messages, end } = await events(service, runId, after).ended();
        const kinds = messages.map(({ event, data }) => event ?? data);
        return { status: head?.status, kinds, endId: end?.id, record: end?.record };
      };
      const toldOfIt = { status: 200, kinds: ["truncated", "end"], endId: FAR_END, record: INTERRUPTED };
      for (const after of range(STORED + 1, HAD + 2)) expect(await read(after)).toMatchObject(toldOfIt);
      for (const after of [STORED, STORED - 5, 0]) {
        const kinds = [...counted(STORED, after), "end"];
        expect(await read(after)).toMatchObject({ ...toldOfIt, kinds });
      }
      expect(await read(FAR_END)).toMatchObject({ status: 204, kinds: [] });
      await service.stop();
    },
  );
}
