import { cp, mkdir } from "node:fs/promises";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { KeyRing } from "../../../src/identity/key-ring.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { openStore } from "../../../src/store/store.ts";
import { Command, MILLRACE, serviceEnvironment } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const REVOCATION_MS = 5_000;

/** `millrace serve` on the database, until the test is over; its address for apps. */
async function serve(dataDir: string, databaseUrl: string): Promise<string> {
  const command = new Command(MILLRACE, ["serve"], {
    env: { ...serviceEnvironment(dataDir), MILLRACE_DATABASE_URL: databaseUrl },
  });
  onTestFinished(async () => {
    process.kill(command.pid, "SIGTERM");
    await command.exited;
  });
  const [line] = await command.printed(/^.*"millrace is up".*$/m);
  return (JSON.parse(line) as { apiUrl: string }).apiUrl;
}

verifies(
  "sa.delete",
  "a token made on one database works on two processes, and stops within 5 s of its deletion on both",
  async () => {
    const { dataDir, databaseUrl } = await databases.fresh("postgres");
    const store = await openStore({ dataDir, databaseUrl });
    onTestFinished(() => store.close());
    // Processes of one service have one master key.
    const seal = new Seal(loadMasterKey(path.join(dataDir, "master.key")));
    const urls = await Promise.all(
      ["one", "two"].map(async (name) => {
        const own = path.join(dataDir, name);
        await mkdir(own);
        await cp(path.join(dataDir, "master.key"), path.join(own, "master.key"));
        return await serve(own, databaseUrl ?? "");
      }),
    );
    const [project] = await store.projects.list();
    const instanceId = (await store.meta.get("instance_id")) ?? "";
    const tokens = new Tokens(store, await KeyRing.open(store, seal, systemClock), instanceId, systemClock);
    const projectId = project?.id ?? "";
    const expiresAt = Date.now() + 3_600_000;
    const { token, accountId } = await tokens.issue({ projectId, name: "x", role: "run", expiresAt });
    const status = async (url: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${url}/v4/${projectId}/none/run`, { method: "POST", headers })).status;
    };
    // There is no such app: who is let in learns that.
    expect(await Promise.all(urls.map(status))).toEqual([404, 404]);
    expect(await tokens.revoke(projectId, accountId)).toBe(true);
    const revokedAt = performance.now();
    const lateMs = await Promise.all(
      urls.map(async (url) => {
        let askedAt = 0;
        let lastGoodMs = 0;
        await until("it is refused", async () => {
          askedAt = performance.now() - revokedAt;
          const isGood = (await status(url)) !== 401;
          if (isGood) lastGoodMs = askedAt;
          return !isGood;
        });
        return lastGoodMs;
      }),
    );
    // Counted from when it was asked: a busy machine may answer later.
    for (const ms of lateMs) expect(ms).toBeLessThan(REVOCATION_MS);
  },
);
