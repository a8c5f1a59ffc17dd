import { expect, onTestFinished } from "vitest";
import { scratchDirectory } from "../support/command-line.ts";
import { diskFault, promotion, serverFaults, wayFaults } from "../support/database-faults.ts";
import type { DatabaseFault } from "../support/database-faults.ts";
import { sufferFault, type TableForm, WITNESS_APP } from "../support/fault-table.ts";
import { KillableService } from "../support/killable-service.ts";
import { PostgresServer, canMount, startPostgres } from "../support/postgres-server.ts";
import { SilentProxy } from "../support/silent-proxy.ts";
import { verifies } from "../verifies.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
/** Once each and briefly, or so often and so long that calls per second can be compared. */
const FORM: TableForm = IS_FULL
  ? { rounds: 5, stretchMs: 3_000, calls: 100 }
  : { rounds: 1, stretchMs: 0, calls: 20 };
/** The rest takes its time: the breaker's, or that of a second server. */
const SHORT_FORM = ["stopped and started", "out of connections", "read-only, new sessions"];
const LEAST_RATIO = 0.75;
const LONG_MS = 900_000;

async function serviceOn(databaseUrl: string): Promise<KillableService> {
  const dataDir = scratchDirectory();
  const service = await KillableService.deploy({ databaseUrl, dataDir }, { main: WITNESS_APP });
  expect(await service.start()).toBe(true);
  return service;
}

/** Brings one fault after another upon a service, prints what everybody saw, and stops it. */
async function tabulate(
  service: KillableService,
  faults: readonly DatabaseFault[],
  form: TableForm = FORM,
): Promise<void> {
  for (const fault of faults) {
    const { row, log } = await sufferFault(service, fault, form);
    const fields = Object.entries(row).map(([name, value]) => `  ${name}: ${value}`);
    const lines = [...log].map(([line, count]) => `  log: ${count} × ${line}`);
    process.stdout.write(`${[...fields, ...lines].join("\n")}\n\n`);
    if (IS_FULL) expect(row["during / before"]).toBeGreaterThanOrEqual(LEAST_RATIO);
  }
  await service.stop();
}

verifies(
  ["faults.postgres", "faults.postgres.readyz"],
  "whatever befalls Postgres, sync calls go on, async ones are accepted or refused for good, and it gets over it",
  async () => {
    const postgres = await startPostgres({ settings: ["max_connections=30"] });
    onTestFinished(() => postgres.stop());
    const faults = serverFaults(postgres).filter(({ name }) => IS_FULL || SHORT_FORM.includes(name));
    await tabulate(await serviceOn(postgres.url), faults);
  },
  LONG_MS,
);

if (IS_FULL) {
  verifies(
    "faults.postgres",
    "the way to Postgres is cut, and mended",
    async () => {
      const postgres = await startPostgres();
      onTestFinished(() => postgres.stop());
      const proxy = await SilentProxy.open(postgres.url);
      await tabulate(await serviceOn(proxy.url), wayFaults(proxy));
    },
    LONG_MS,
  );

  for (const hasLog of [false, true]) {
    verifies(
      "faults.postgres",
      `the disk of Postgres is full, ${hasLog ? "for its log too" : "but not for its log"}`,
      async (context) => {
        if (!canMount()) context.skip("only root may mount a small disk");
        const postgres = await startPostgres({ disk: { bytes: 96 * 1024 * 1024, hasLog } });
        onTestFinished(() => postgres.stop());
        const service = await serviceOn(postgres.url);
        await tabulate(service, [diskFault(postgres, hasLog)], { ...FORM, padBytes: 48 * 1024 });
      },
      LONG_MS,
    );
  }

  verifies(
    ["faults.postgres", "config.database-hosts"],
    "a standby takes the place of a Postgres that is gone",
    async () => {
      const primary = await PostgresServer.create({
        settings: ["synchronous_standby_names=*", "wal_keep_size=512MB"],
      });
      onTestFinished(() => primary.stop());
      const standby = await PostgresServer.create({ follows: primary });
      onTestFinished(() => standby.stop());
      expect(await primary.start()).toBe(true);
      expect(await standby.start()).toBe(true);
      const service = await serviceOn(bothHosts(primary.url, standby.url));
      await tabulate(service, [promotion(primary, standby)], { ...FORM, rounds: 1 });
    },
    LONG_MS,
  );
}

function bothHosts(first: string, second: string): string {
  const hostOf = (url: string): string => new URL(url).hostname;
  return `${first.replace(hostOf(first), `${hostOf(first)},${hostOf(second)}`)}?target_session_attrs=read-write`;
}
