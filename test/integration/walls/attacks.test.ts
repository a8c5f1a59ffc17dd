import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import { storageFolder } from "../../../src/host/artifacts.ts";
import { RUNGS } from "../../../src/host/walls/rung.ts";
import type { Rung } from "../../../src/host/walls/rung.ts";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { testService } from "../../support/service.ts";
import type { TestService } from "../../support/service.ts";
import { ATTACKS } from "../../support/walls/attacks.ts";
import type { Attack } from "../../support/walls/attacks.ts";
import {
  HOSTILE_MAIN,
  outerKeeperOf,
  onlyUpTo,
  requireOffered,
  startVictim,
} from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** What a hostile app could know or guess of the machine. */
async function factsOf(service: TestService, rung: Rung) {
  const { dataDir } = service.settings;
  const { projectId } = service.service.owner;
  const otherStorage = storageFolder("p-00000000", dataDir);
  mkdirSync(otherStorage, { recursive: true });
  writeFileSync(path.join(otherStorage, "secret"), "of another project");
  const outside = path.join(service.directory, "outside");
  mkdirSync(outside);
  const shared = `/dev/shm/millrace-attack-${process.pid}`;
  onTestFinished(() => rmSync(shared, { force: true }));
  const pidOf = (app: string): number => [...(service.apps.get(app)?.pool.replicas ?? [])][0]?.pid ?? 0;
  const victim = await startVictim();
  return {
    rung,
    data_dir: dataDir,
    storage: storageFolder(projectId, dataDir),
    other_storage: otherStorage,
    other_bundle: service.bundleDir("neighbour"),
    harness: PYTHON_DIR,
    outside,
    shared,
    sockets: runtimeDir(dataDir),
    service_pid: process.pid,
    service_user: process.getuid?.() ?? 0,
    service_group: process.getgid?.() ?? 0,
    outer_pid: outerKeeperOf(pidOf("hostile"), process.pid),
    neighbour_pid: pidOf("neighbour"),
    victim_pid: victim.pid,
    victim_datagram: victim.datagram,
    victim_abstract: victim.abstract,
  };
}

/** How many rungs higher than what stops it an attack is tried; negative where it has to succeed. */
const above = (rung: Rung, { stoppedAt }: Attack): number => RUNGS.indexOf(rung) - RUNGS.indexOf(stoppedAt);

for (const rung of RUNGS) {
  verifies(
    "walls.attacks",
    `on ${rung} a hostile app is stopped wherever that rung says`,
    async (context) => {
      await requireOffered(rung, context);
      const apps = { hostile: { main: HOSTILE_MAIN }, neighbour: { main: HOSTILE_MAIN } };
      const service = await testService(apps, await onlyUpTo(rung));
      for (const app of Object.keys(apps)) {
        const { status, json } = await service.call(app, {}, { functionName: "who" });
        expect([status, json.result.seccomp]).toEqual([200, "2"]);
      }
      const facts = await factsOf(service, rung);
      const wrong: string[] = [];
      for (const attack of Object.values(ATTACKS).flat()) {
        const distance = above(rung, attack);
        // What is not proven may be refused to this user anyway, or may do harm where nothing stops it.
        if (distance < 0 && !(attack.isProven && distance === -1)) continue;
        const { status, json } = await service.call(
          "hostile",
          { code: attack.code, facts },
          { functionName: "attack" },
        );
        const escaped = status === 200 ? json.result === "escaped" : null;
        if (escaped !== distance < 0) wrong.push(`${attack.name}: ${status} ${JSON.stringify(json)}`);
      }
      expect(wrong).toEqual([]);
      // It is the same process still: no attack has ended it.
      expect(service.ready("hostile")).toBe(1);
    },
  );
}
