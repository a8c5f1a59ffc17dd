import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { runtimeDir } from "../../src/kit/runtime-dir.ts";
import { testDatabases } from "../support/databases.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { dice } from "../support/dice.ts";
import { KillableService } from "../support/killable-service.ts";
import { assertNothingLeft, processesIn } from "../support/leak-check.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { memoryBytes } from "../support/process-tree.ts";
import { WebhookTarget } from "../support/webhook-target.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";
import { Callers } from "./callers.ts";
import { Faults } from "./faults.ts";
import { Promises } from "./promises.ts";
import { loadedApp, SLEEPER } from "./soak-apps.ts";
import { HEADING, rowOf } from "./table.ts";
import { Turmoil } from "./turmoil.ts";
import { growths, leftOpen, type Sample, takeSample } from "./vitals.ts";

// Started by `npm run test:soak` (scripts/test-soak.ts), which says how long, on which database and with which seed.
const MINUTES = Number(process.env["MILLRACE_SOAK_MINUTES"] ?? 1);
const SEED = Number(process.env["MILLRACE_SOAK_SEED"] ?? 1);
const IS_POSTGRES = process.env["MILLRACE_SOAK_DATABASE"] === "postgres";

const SAMPLE_MS = 10_000;
const MINUTE_MS = 60_000;
/** A process that has just started holds less than it will. */
const GROWN_MS = 20_000;
/** A minute after the load ends the service holds no more. */
const IDLE_MB = 150;
/** Sockets that come and go by chance. */
const IDLE_DESCRIPTORS = 10;

const databases = testDatabases();
const say = (text: string): void => void process.stderr.write(`${text}\n`);

async function prepare() {
  const postgres = IS_POSTGRES ? await startPostgres() : null;
  if (postgres) onTestFinished(() => postgres.stop());
  const { dataDir } = await databases.fresh("sqlite");
  const database = { dataDir, databaseUrl: postgres?.url ?? null };
  const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
  const service = await KillableService.deploy(database, loadedApp(0), env);
  expect(await service.start()).toBe(true);
  const { main, toml = "" } = SLEEPER;
  const { status } = await new DeployClient(service, "sleeper").deploy(
    await zipOf({ "main.py": main, "millrace.toml": toml }),
  );
  expect(status).toBe("success");
  return { service, postgres };
}

verifies(
  "show.soak",
  `${MINUTES} minutes of mixed load and faults: what was accepted ended once, nothing is left, nothing grew`,
  async () => {
    const { service, postgres } = await prepare();
    const { dataDir } = service.database;
    const target = await WebhookTarget.open();
    const roll = dice(SEED);
    const turmoil = new Turmoil();
    const promises = new Promises(service);
    const webhook = encodeURIComponent(`${target.url}/hook`);
    const callers = new Callers({ service, promises, turmoil, roll, webhook });
    await callers.probe();
    const idle = takeSample(service.command.pid, dataDir, []);
    const breaches = (): string[] => [...callers.breaches, ...promises.breaches];

    promises.start();
    callers.start();
    const faults = new Faults({ service, callers, target, postgres, turmoil, roll });
    const samples: Sample[] = [];
    say(`\nseed ${SEED}, ${MINUTES} minutes, ${IS_POSTGRES ? "Postgres" : "SQLite"}\n\n${HEADING}`);
    const startedAt = performance.now();
    let sample = idle;
    for (let at = SAMPLE_MS; at <= MINUTES * MINUTE_MS; at += SAMPLE_MS) {
      await sleep(Math.max(0, startedAt + at - performance.now()));
      if (performance.now() - faults.startedAt > GROWN_MS) {
        // The service may be killed while it is looked at.
        try {
          sample = takeSample(service.command.pid, dataDir, callers.latenciesMs);
          samples.push(sample);
          callers.latenciesMs = [];
        } catch {}
      }
      if (at % MINUTE_MS !== 0) continue;
      say(
        rowOf({
          minute: at / MINUTE_MS,
          tally: callers.tally,
          sample,
          ended: promises.ends.size,
          promised: promises.accepted.size,
          webhooks: target.received.length,
          faults: turmoil.total,
          processes: processesIn(dataDir).length,
          breaches: breaches().length,
        }),
      );
    }
    await faults.stop();
    await callers.stop();
    say(`\nno more calls: ${promises.accepted.size} runs were promised, ${promises.ends.size} have ended`);
    await promises.keep();
    await promises.delivered(target);
    say("all have ended, their webhooks have come; a minute of rest");
    await sleep(MINUTE_MS);

    const after = takeSample(service.command.pid, dataDir, []);
    const idleMb = memoryBytes(service.command.pid) / 1024 / 1024;
    const found = [...breaches(), ...growths(samples), ...leftOpen(service.command.pid)];
    if (idleMb > IDLE_MB) found.push(`${idleMb.toFixed(0)} MB a minute after the load ended`);
    if (after.descriptors > idle.descriptors + IDLE_DESCRIPTORS)
      found.push(`${after.descriptors} open files after it, ${idle.descriptors} before`);
    await service.stop();
    await assertNothingLeft(dataDir);
    if (existsSync(runtimeDir(dataDir))) found.push("the folder of its sockets was left behind");
    say(`faults: ${[...turmoil.counts].map(([kind, count]) => `${count} ${kind}`).join(", ")}`);
    say(
      `idle: ${idle.memoryMb.toFixed(0)} MB and ${idle.descriptors} open files before, ${idleMb.toFixed(0)} MB and ${after.descriptors} after`,
    );
    say(
      found.length === 0
        ? "kept: every promise"
        : `BROKEN with seed ${SEED}:\n  ${found.slice(0, 50).join("\n  ")}`,
    );
    expect({ seed: SEED, found }).toEqual({ seed: SEED, found: [] });
  },
);
