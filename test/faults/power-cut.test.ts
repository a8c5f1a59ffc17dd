import { pathToFileURL } from "node:url";
import path from "node:path";
import { expect, test, type TestContext } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { faultDice } from "../support/dice.ts";
import { KillableService } from "../support/killable-service.ts";
import { LEDGER_APP } from "../support/ledger.ts";
import { CannotWatchError, type Cut, cutPower } from "../support/power-cut.ts";
import { PromisedRuns } from "../support/promised-runs.ts";
import { REPOSITORY } from "../support/source-files.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const CUTS = IS_FULL ? 50 : 2;
/** Writes and syncs of the database: the first ones come while the service starts. */
const MAX_CALLS = IS_FULL ? 4_000 : 1_000;
const TIMEOUT_MS = IS_FULL ? 900_000 : undefined;
/** So many that the log has been folded into the database. */
const BEYOND_CHECKPOINT = 3_000;
const CARELESS = pathToFileURL(path.join(REPOSITORY, "test", "support", "careless-sqlite.ts")).href;

const databases = testDatabases();

test(
  `after each of ${CUTS} power cuts the database is whole, and every accepted run is there and ends`,
  async (context) => {
    const { service, promised } = await deploy();
    const roll = faultDice();
    const syncs: Record<string, number> = {};
    for (let cut = 1; cut <= CUTS; cut++) {
      const after = cut === 1 ? BEYOND_CHECKPOINT : Math.ceil(roll(MAX_CALLS));
      const place = { after, seed: Math.ceil(roll(1e9)) };
      const left = await cutHere(context, cutPower(service, promised, place));
      expect({ ...place, ...left }).toMatchObject({ ...place, integrity: "ok", lost: [] });
      for (const [name, count] of Object.entries(left.syncs)) syncs[name] = (syncs[name] ?? 0) + count;
      if (IS_FULL) console.log({ cut, ...place, dropped: left.dropped, accepted: promised.accepted.size });
    }
    expect(promised.accepted.size).toBeGreaterThan(CUTS);
    expect(syncs["millrace.db"]).toBeGreaterThan(0);
    await service.start();
    await promised.keep();
    await service.stop();
  },
  TIMEOUT_MS,
);

test("with a SQLite that never syncs the same cuts lose accepted runs", async (context) => {
  const { service, promised } = await deploy();
  const place = { after: 500, seed: 1, share: 0, env: { NODE_OPTIONS: `--import ${CARELESS}` } };
  const { dropped, lost, syncs } = await cutHere(context, cutPower(service, promised, place));
  expect(syncs["millrace.db-wal"]).toBe(0);
  expect(dropped).toBeGreaterThan(0);
  expect(promised.accepted.size).toBeGreaterThan(0);
  expect(lost.length).toBeGreaterThan(0);
});

async function deploy() {
  const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 2\n" };
  const service = await KillableService.deploy(await databases.fresh("sqlite"), app);
  return { service, promised: new PromisedRuns(service) };
}

async function cutHere(context: TestContext, cutting: Promise<Cut>): Promise<Cut> {
  try {
    return await cutting;
  } catch (error) {
    if (!(error instanceof CannotWatchError)) throw error;
    console.warn(`POWER CUTS ARE NOT TESTED ON THIS MACHINE: ${error.message}`);
    return context.skip(error.message);
  }
}
