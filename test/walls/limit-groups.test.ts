import { existsSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { serve } from "../support/command-line.ts";
import { serveApps } from "../support/serve-apps.ts";
import { testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { groupsOf, requireCgroups } from "../support/walls/limited.ts";
import { verifies } from "../verifies.ts";

const MAIN = "def run():\n    return True\n";

verifies(
  "walls.limits.groups",
  "the groups of an app are gone when it is deleted, and all when the service stops",
  async (context) => {
    await requireCgroups("memory", context);
    const service = await testService({
      app: { main: MAIN },
      plain: { main: MAIN, toml: '[deployment]\nfork = "never"\n' },
    });
    const { dataDir } = service.settings;
    for (const app of ["app", "plain"]) expect((await service.call(app)).status).toBe(200);
    const made = groupsOf(dataDir);
    const roots = [...new Set(made.map((group) => path.dirname(group)))];
    // A template and its fork, and a replica that is none, in each hierarchy.
    expect(made).toHaveLength(3 * roots.length);
    const { baseUrl, owner } = service.service;
    const deleted = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-app`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${owner.token}` },
    });
    expect(deleted.status).toBe(200);
    await until("its groups are gone", () => groupsOf(dataDir).length === roots.length);
    await service.service.stop();
    expect(roots.filter((root) => existsSync(root))).toEqual([]);
  },
);

verifies(
  "walls.limits.groups",
  "what a service that was killed has left is removed at the next start",
  async (context) => {
    await requireCgroups("memory", context);
    const service = await serveApps({ app: { main: MAIN } });
    const dataDir = path.join(service.directory, "data");
    expect((await service.call("app", "run")).status).toBe(200);
    const left = groupsOf(dataDir);
    expect(left.length).toBeGreaterThanOrEqual(2);
    process.kill(service.command.pid, "SIGKILL");
    await service.command.exited;
    expect(left.filter((group) => existsSync(group))).toEqual(left);
    const { command } = await serve(dataDir, {});
    expect(left.filter((group) => existsSync(group))).toEqual([]);
    expect(groupsOf(dataDir)).toEqual([]);
    process.kill(command.pid, "SIGTERM");
    await command.exited;
  },
);
