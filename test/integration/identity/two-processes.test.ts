import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { ServiceClock } from "../../support/service-clock.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "sa.delete",
  "a token made on one database works on two processes, and stops on one at its deletion, on the other 5 s later at most",
  async () => {
    const app = { main: "def run():\n    return 1\n" };
    const first = await KillableService.deploy(await databases.fresh("postgres"), app);
    const second = await first.sibling((await databases.fresh("sqlite")).dataDir);
    const clock = new ServiceClock(second);
    expect(await Promise.all([first.start(), clock.start()])).toEqual([true, true]);
    const manage = async (method: string, place = "", body?: object) => {
      const url = `${first.baseUrl}/v2/projects/${first.projectId}/service-accounts${place}`;
      const headers = { authorization: `Bearer ${first.token}`, "content-type": "application/json" };
      const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      expect(response.status).toBe(200);
      return (await response.json()) as { id: string; token: string };
    };
    const { id, token } = await manage("POST", "", { name: "x", role: "run" });
    const status = async ({ appUrl }: KillableService) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${appUrl}-none/run`, { method: "POST", headers })).status;
    };
    // There is no such app: who is let in learns that.
    expect([await status(first), await status(second)]).toEqual([404, 404]);
    await manage("DELETE", `/${id}`);
    expect(await status(first)).toBe(401);
    await clock.skip(5_001);
    expect(await status(second)).toBe(401);
    await Promise.all([first.stop(), second.stop()]);
  },
);
