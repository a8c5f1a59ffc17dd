import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { apiOf } from "../../src/cli/client/api.ts";
import { NETWORK } from "../../src/cli/operator/escape/attacks/network.ts";
import { Stage } from "../../src/cli/operator/escape/stage.ts";
import { tryAttacks } from "../../src/cli/operator/escape/try-attacks.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { testService } from "../support/service.ts";
import { onlyUpTo, requireJudged } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

for (const level of WALL_LEVELS) {
  verifies(
    "servers.port-in-code.attacks",
    `on ${level} a server with its port in the code gets no other port and reaches no other server by it`,
    async (context) => {
      await requireJudged(level, context);
      const service = await testService({}, await onlyUpTo(level, "python3", true));
      const { apiUrl, baseUrl, owner } = service.service;
      const { signal } = new AbortController();
      const { path: python } = await findInterpreter("python3");
      const { dataDir } = service.settings;
      const stage = new Stage({
        api: apiOf({ apiUrl, baseUrl, ...owner }, signal),
        dataDir,
        masterKey: path.join(dataDir, "master.key"),
        pid: process.pid,
        python,
        isScratch: false,
        judgesNetwork: true,
      });
      onTestFinished(async () => await stage.clear());
      await stage.prepare(signal);
      const attacks = NETWORK.filter(({ from }) => from === "server");
      const ends: Record<string, string> = {};
      let stopped = 0;
      for await (const { attack, isStopped, result } of tryAttacks(stage, { network: attacks })) {
        ends[attack.name] = result;
        if (isStopped) stopped += 1;
      }
      expect({ ends, stopped }).toEqual({ ends, stopped: attacks.length });
      expect(attacks.length).toBeGreaterThan(8);
    },
  );
}
