import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "bootstrap.shared",
  "a service with a new directory has the owner's token of the one before",
  async () => {
    const { databaseUrl, dataDir } = await databases.fresh("postgres");
    const masterKeyFile = path.join(dataDir, "master.key");
    const first = await testService({}, { databaseUrl, dataDir });
    const { token, projectId } = first.service.owner;
    await first.service.stop();

    const second = { databaseUrl, masterKeyFile, dataDir: scratchDirectory() };
    const on = await testService({}, second);
    expect(on.service.owner).toEqual({ projectId, token });
    expect(readFileSync(path.join(second.dataDir, "owner-token"), "utf8")).toBe(`${token}\n`);
    const accounts = `${on.service.baseUrl}/v2/projects/${projectId}/service-accounts`;
    const headers = { authorization: `Bearer ${token}` };
    const all = (await (await fetch(accounts, { headers })).json()) as { id: string }[];
    expect(all).toHaveLength(1);
    // One that was revoked is nobody's any more.
    const revoked = await fetch(`${accounts}/${all[0]?.id}`, { method: "DELETE", headers });
    expect(revoked.ok).toBe(true);
    await on.service.stop();
    const third = await testService({}, { databaseUrl, masterKeyFile, dataDir: scratchDirectory() });
    expect(third.service.owner.token).not.toBe(token);
    await third.service.stop();
  },
);
