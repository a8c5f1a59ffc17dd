import { expect } from "vitest";
import { testProgram } from "../support/command-line.ts";
import { testDatabases, triedKinds } from "../support/databases.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { KillableService } from "../support/killable-service.ts";
import { endLeases } from "../support/leases.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import time

def run(n):
    time.sleep(0.02)
    return n
`;
const TOML = `[scaling]
max_replicas = 2
replica_concurrency = 4
[queue]
concurrency_limit = 3
concurrency_key_limit = 1
rate_limit = "200/1s"
`;
const databases = testDatabases();
const SCRIPT = testProgram("kill-point");
const POINTS = ["keyLines.admit", "runs.accept", "claims.claim", "claims.finish"] as const;
const MOMENTS = FAULT_LENGTH === "full" ? (["before", "amid", "after"] as const) : (["after"] as const);
const KEYS = ["x", "x", "y", null] as const;

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["queue.key-crash", "queue.concurrency", "queue.key-concurrency"],
    `a service that dies at any point of a run with limits leaves no run waiting for ever, and keeps to them, on ${kind}`,
    async () => {
      const service = await KillableService.deploy(await databases.fresh(kind), { main: MAIN, toml: TOML });
      const keyOf = new Map<string, string | null>();
      const accept = async (key: string | null): Promise<void> => {
        const asked = key === null ? "" : `&concurrency_key=${key}`;
        const { status, json } = await service.post({ n: 1 }, { query: `?async=true${asked}` });
        expect(status).toBe(202);
        keyOf.set(json.run_id as string, key);
      };
      for (const point of FAULT_LENGTH === "minimal" ? POINTS.slice(0, 2) : POINTS)
        for (const moment of MOMENTS) {
          expect(await service.start([process.execPath, SCRIPT, point, moment])).toBe(true);
          process.kill(service.command.pid, "SIGUSR2");
          await service.command.printed(/^armed$/m);
          // The point may lie before the answers.
          await Promise.all([...KEYS, ...KEYS].map((key) => accept(key).catch(() => undefined)));
          expect(await service.command.exited).toBe("SIGKILL");
          await endLeases(service.database);
        }
      expect(await service.start()).toBe(true);
      await Promise.all(KEYS.map(accept));
      await until("every run has ended", async () => {
        const runs = await Promise.all(
          [...keyOf].map(async ([id, key]) => ({ key, status: (await service.find(id))?.status })),
        );
        expect(runs.filter(({ status }) => status === undefined)).toEqual([]);
        return runs.every(({ status }) => status === "success");
      });
      await service.stop();
    },
  );
}
