import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { openStore, type Store } from "../src/store/store.ts";
import { startCpuMeter } from "./cpu-meter.ts";
import { descendantsOf } from "./proc.ts";
import { makeScratchDir } from "./scratch.ts";
import { startPostgres } from "./subjects/postgres.ts";

const LEASE_MS = 60_000;
const ROUNDS = 100;
/** What a node takes over at once, and which apps: those of a node that has died. */
const TAKEN = 200;

/** Processor time of a real Postgres, with so many nodes and apps, for each question of nodes, in milliseconds. */
export async function measureStatements(
  nodeCount: number,
  appCount: number,
): Promise<ReadonlyMap<string, number>> {
  const server = await startPostgres();
  const databaseUrl = await server.create("nodes");
  const store = await openStore({ dataDir: makeScratchDir(), databaseUrl });
  try {
    const ids = Array.from({ length: nodeCount }, () => randomUUID());
    for (const id of ids) await renew(store, id);
    await addApps(databaseUrl, ids, appCount);
    const [first = "", second = ""] = ids;
    const owned = (await store.appOwners.owned(first)).slice(0, TAKEN);
    const [one] = owned;
    if (!one) throw new Error("there are no apps");
    const figures = new Map<string, number>();
    const time = async (name: string, ask: (round: number) => Promise<unknown>): Promise<void> => {
      for (const id of ids) await renew(store, id);
      await ask(0);
      const used = startCpuMeter({
        service: [],
        load: [],
        database: [server.pid, ...descendantsOf(server.pid)],
      });
      for (let round = 1; round <= ROUNDS; round++) await ask(round);
      figures.set(name, used().databaseMs / ROUNDS);
    };
    await time("renew", async (round) => await renew(store, ids[round % ids.length] ?? ""));
    await time("list", async () => await store.nodes.list());
    await time("owned", async (round) => await store.appOwners.owned(ids[round % ids.length] ?? ""));
    await time(
      "ownerless",
      async () => await store.appOwners.ownerless({ after: 0, limit: 1_000, dead: [] }),
    );
    let [fence, from, to] = [one.fence, first, second];
    await time("handOver", async () => {
      fence = (await store.appOwners.handOver({ appNumber: one.appNumber, fence, from, to })) ?? Number.NaN;
      [from, to] = [to, from];
    });
    const appNumbers = owned.map(({ appNumber }) => appNumber);
    await time(`take of ${appNumbers.length}`, async (round) => {
      const [owner, other] = round % 2 === 0 ? [first, second] : [second, first];
      await store.appOwners.take({ appNumbers, owner, dead: [other], mayJudge: true });
    });
    return figures;
  } finally {
    await store.close();
    await server.stop();
  }
}

async function renew(store: Store, owner: string): Promise<void> {
  const capacity = { cpus: 8, memoryBytes: 32e9 };
  const said = {
    name: owner,
    home: owner,
    labels: {},
    capacity,
    release: "0.0.0",
    runs: 0,
    startedAt: 0,
    managementAddresses: [],
  };
  await store.nodes.renew({
    owner,
    leaseMs: LEASE_MS,
    url: "https://node:4200",
    details: said,
    isLeaving: false,
  });
}

async function addApps(databaseUrl: string, ids: readonly string[], appCount: number): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("insert into projects (id, name, created_at) values ('p-bench', 'bench', 0)");
    await client.query(
      `insert into apps (project_id, name, created_at, updated_at, current_version_id, owner, fence)
       select 'p-bench', 'app-' || n, 0, 0, decode(md5(n::text), 'hex'), ($1::text[])[1 + n % $2], 1 from generate_series(1, $3) n`,
      [ids, ids.length, appCount],
    );
    await client.query("analyze apps");
  } finally {
    await client.end();
  }
}
