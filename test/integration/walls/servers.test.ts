import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { serverApp } from "../../support/servers/server-app.ts";
import { testService } from "../../support/service.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { onlyUpTo, requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

for (const level of TRIED_LEVELS) {
  verifies(
    "servers.walls",
    `on ${level} a server starts, answers, and ends with its calls`,
    async (context) => {
      await requireOffered(level, context);
      const site = await testService({ web: serverApp() }, await onlyUpTo(level));
      const { status, json } = await site.call("web", { a: 1 }, { functionName: "some/path" });
      expect([status, json.path]).toEqual([200, "/some/path"]);
      const [replica] = site.apps.get("web")?.pool.replicas ?? [];
      // By the host's ids: it is the server itself, below both keepers.
      expect(readFileSync(`/proc/${replica?.pid}/cmdline`, "utf8")).toContain(
        `main.py\0--port\0${json.port}`,
      );
      expect((await replica?.usage())?.residentBytes).toBeGreaterThan(0);
    },
  );
}
