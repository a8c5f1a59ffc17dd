import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { faultDice } from "../../support/dice.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { PromisedRuns } from "../../support/promised-runs.ts";
import { until } from "../../support/until.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const ENDS = IS_FULL ? 40 : 2;
const RUNS = IS_FULL ? 8_000 : 120;

const main = `
import os, time

FOLDER = os.environ["PERSISTENT_STORAGE"]
with open(os.path.join(FOLDER, "pids"), "a") as file:
    file.write("%d\\n" % os.getpid())

def setup():
    with open(os.path.join(FOLDER, "pids"), "a") as file:
        file.write("%d\\n" % os.getpid())

def run(n: list[int], ms: list[float], pad: list[str]):
    time.sleep(max(ms) / 1000)
    with open(os.path.join(FOLDER, "sizes"), "a") as file:
        file.write("%d\\n" % len(n))
    return [2 * each + 1 for each in n]
`;
const toml = `
[scaling]
max_replicas = 2
max_attempts = 20
[batching.run]
max_size = 16
`;

const databases = testDatabases();

for (const kind of triedKinds("sqlite"))
  test(
    `async runs in batches on ${kind}, while the service is killed or stopped and replicas are killed: each has its own result`,
    async () => {
      const service = await KillableService.deploy(await databases.fresh(kind), { main, toml });
      const promised = new PromisedRuns(service);
      const roll = faultDice();
      const lines = (name: string): string[] => {
        const file = path.join(service.storageDir, name);
        return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").filter(Boolean) : [];
      };
      for (let end = 1; end <= ENDS; end++) {
        await service.start();
        const had = promised.accepted.size;
        const posting = promised.post((RUNS * end) / ENDS, { clients: 32, ms: 20 });
        const more = Math.floor(roll(RUNS / ENDS));
        const done = lines("sizes").length;
        await until("so many are accepted", () => promised.accepted.size >= had + more);
        const pid = Number(lines("pids").at(-1));
        await until("a batch has run", () => lines("sizes").length > done);
        try {
          process.kill(pid, roll(2) < 1 ? "SIGKILL" : "SIGSTOP");
        } catch {
          // It has ended.
        }
        if (roll(2) < 1) await service.kill();
        await posting;
        // While it stops it accepts nothing.
        if (service.command.child.exitCode === null && service.command.child.signalCode === null)
          await service.stop();
        if (!IS_FULL) await endLeases(service.database);
      }
      await service.start();
      await promised.post(RUNS, { clients: 32, ms: 20 });
      await promised.keep();
      await service.stop();
    },
    IS_FULL ? 900_000 : undefined,
  );
