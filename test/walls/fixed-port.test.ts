import { expect } from "vitest";
import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { Condition } from "../../src/kit/concurrency.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { freePort } from "../support/free-port.ts";
import { stubborn } from "../support/servers/fixed-port.ts";
import { testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { onlyUpTo, requireJudged } from "../support/walls/walled.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

const DEPLOYS = 20;
const CALLERS = 6;

for (const rung of WALL_LEVELS) {
  verifies(
    "servers.port-in-code.replicas",
    `on ${rung} no call to three replicas with their port in the code fails during ${DEPLOYS} deploys`,
    async (context) => {
      await requireJudged(rung, context);
      const port = await freePort();
      const site = await testService({ web: stubborn(port, 0) }, await onlyUpTo(rung, "python3", true));
      await until("three are ready", () => site.ready("web") === 3);
      const { baseUrl, owner } = site.service;
      const client = new DeployClient({ baseUrl, projectId: owner.projectId, token: owner.token }, "web");
      const versions = new Map<number, Set<string>>();
      const faults: string[] = [];
      const news = new Condition();
      let calls = 0;
      const over = new AbortController();
      const callers = Array.from({ length: CALLERS }, async (_, index) => {
        while (!over.signal.aborted) {
          // Some of them by way of the port in the code.
          const functionName = index % 2 === 0 ? "" : "by/127.0.0.1";
          const { status, text, json } = await site.call("web", "", { method: "GET", functionName });
          calls += 1;
          const { version, name, caller = name } = (json ?? {}) as Record<string, string>;
          if (status !== 200 || caller !== name) faults.push(`${status} ${text}`);
          else versions.set(Number(version), (versions.get(Number(version)) ?? new Set()).add(name ?? ""));
          news.notify();
        }
      });
      try {
        for (let version = 1; version <= DEPLOYS; version++) {
          const { main, toml = "" } = stubborn(port, version);
          const files = { "main.py": main, "millrace.toml": `${toml}[deployment]\nname = "web"\n` };
          const { status } = await client.deploy(await zipOf(files));
          expect({ version, status }).toEqual({ version, status: "success" });
          const isSeen = () => faults.length > 0 || versions.get(version)?.size === 3;
          await until("all three replicas of it have answered", isSeen, news);
          expect(faults).toEqual([]);
        }
      } finally {
        over.abort();
        await Promise.all(callers);
      }
      expect(faults).toEqual([]);
      expect(calls).toBeGreaterThan(DEPLOYS * 3);
      expect(site.logs.map(({ text }) => text).join("\n")).not.toContain("it runs as one replica");
    },
  );
}
