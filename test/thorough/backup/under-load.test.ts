import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { Ledger, LEDGER_APP } from "../../support/ledger.ts";
import { PromisedRuns } from "../../support/promised-runs.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { millrace, modeOf } from "../../integration/backup/saved.ts";

const databases = testDatabases();

verifies(
  ["show.backup", "operations.backup", "control.backup-doctor"],
  "a backup under load, restored elsewhere: every run accepted before it is there and ends well",
  async () => {
    const database = await databases.fresh("sqlite");
    const service = await KillableService.deploy(database, {
      main: LEDGER_APP,
      toml: "[scaling]\nmax_replicas = 2\n",
    });
    await service.start();
    const before = new PromisedRuns(service);
    // Two run, and all others are queued, when the backup is taken.
    const held = { functionName: "hold", query: "?async=true" };
    for (let i = 0; i < 2; i++) await service.post({ n: 1, name: "go" }, held);
    await until("two run", () => Ledger.read(service).begins.size === 2);
    await before.post(80, { padBytes: 2_000 });
    const during = new PromisedRuns(service);
    const load = during.post(Number.POSITIVE_INFINITY, { clients: 4 });
    await until("the load goes on", () => during.accepted.size > 10);

    const file = path.join(scratchDirectory(), "backup.tar");
    const env = { MILLRACE_DATA_DIR: database.dataDir };
    const saved = await millrace(["backup", file, "--json"], env);
    expect(saved).toMatchObject({ file, left_out: [], database_command: null });
    expect([modeOf(file), readdirSync(path.dirname(file))]).toEqual(["600", ["backup.tar"]]);
    const afterwards = during.accepted.size;
    await until("the load went on meanwhile", () => during.accepted.size > afterwards);
    await service.kill();
    await load;

    const restored = { databaseUrl: null, dataDir: path.join(scratchDirectory(), "restored") };
    await millrace(["restore", file, "--json", "--data-dir", restored.dataDir], {});
    expect(modeOf(restored.dataDir)).toBe("700");
    for (const name of ["master.key", "owner-token", "millrace.db"]) {
      expect(modeOf(path.join(restored.dataDir, name))).toBe("600");
    }
    const again = service.on(restored);
    const queued = await again.withStore(async (store) => (await store.claims.backlog()).length);
    expect(queued).toBe(1);
    await again.start();
    mkdirSync(again.storageDir, { recursive: true });
    writeFileSync(path.join(again.storageDir, "go"), "");
    await before.keep(again);
    await again.stop();
  },
);
