import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { apiOf } from "../../src/cli/client/api.ts";
import { ATTACKS, tryAttacks } from "../../src/cli/operator/escape/try-attacks.ts";
import { Stage } from "../../src/cli/operator/escape/stage.ts";
import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { testService } from "../support/service.ts";
import { MEANS, requireCgroups, withoutCgroups } from "../support/walls/limited.ts";
import { onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const LIMITS = (ATTACKS["limits"] ?? []).filter(({ stoppedBy }) => ["memory", "userns"].includes(stoppedBy));

for (const means of MEANS) {
  for (const level of WALL_LEVELS) {
    verifies(
      "walls.limits.memory.unmapped",
      `by ${means}, on ${level}, memory that no process has mapped counts too`,
      async (context) => {
        await requireOffered(level, context);
        if (means === "control groups") await requireCgroups("memory", context);
        const options = means === "watcher" ? { engine: withoutCgroups } : {};
        const service = await testService({}, await onlyUpTo(level), options);
        const { apiUrl, baseUrl, owner } = service.service;
        const { dataDir } = service.settings;
        const { signal } = new AbortController();
        const { path: python } = await findInterpreter("python3");
        const stage = new Stage({
          api: apiOf({ apiUrl, baseUrl, ...owner }, signal),
          dataDir,
          masterKey: path.join(dataDir, "master.key"),
          pid: process.pid,
          python,
          isScratch: true,
          judgesNetwork: false,
        });
        onTestFinished(() => stage.clear());
        await stage.prepare(signal);
        const isPromised = (wall: string): boolean =>
          wall === "memory" || (wall === "userns" && (level === "userns" || level === "uid"));
        const escaped: string[] = [];
        for await (const { attack, isStopped, result } of tryAttacks(stage, { limits: LIMITS })) {
          process.stderr.write(`\n${means}, ${level}: ${attack.name}: ${result}\n`);
          if (isPromised(attack.stoppedBy) && !isStopped) escaped.push(`${attack.name}: ${result}`);
        }
        expect(escaped).toEqual([]);
      },
    );
  }
}
