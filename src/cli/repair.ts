import { repairEnvironments } from "../apps/repair-environments.ts";
import type { Repaired } from "../apps/repair-environments.ts";
import type { Settings } from "../config/setting-keys.ts";
import { Containers } from "../host/containers/containers.ts";
import { findInterpreter } from "../host/interpreter.ts";
import { settleStorage } from "../host/storage/settle.ts";
import { hostReads } from "../host/walls/host-reads.ts";
import { requireNetwork, requireRung } from "../host/walls/require-walls.ts";
import { createLog } from "../kit/log.ts";
import { lockDirectory } from "../store/upkeep/directory-lock.ts";
import { openStore } from "../store/store.ts";
import { askService } from "./ask-service.ts";
import { fail, ok } from "./finding.ts";
import type { Finding } from "./finding.ts";

/** `millrace doctor --repair`: the service does it if one runs, else we do if we can, with the directory locked. */
export async function repair(settings: Settings, say: (text: string) => void): Promise<Finding[]> {
  const asked = await askService(settings.dataDir, "repairEnvironments");
  if (!asked && settings.engine !== "process")
    return [
      fail(
        "repair",
        "packages are installed where apps run, by a running service",
        "start the service, and run the repair again",
      ),
    ];
  const repaired = asked ? (asked.result as Repaired[]) : await repairAlone(settings, say);
  if (repaired.length === 0) return [ok("repair", "nothing needed repair")];
  return repaired.map(({ app, version, problem }) => {
    const name = `${app}, version ${version}`;
    if (problem === null) return ok("repair", `${name}: reinstalled its packages`);
    return fail(
      "repair",
      `${name}: ${problem}`,
      "fix the cause and run the repair again, or deploy the app again",
    );
  });
}

async function repairAlone(settings: Settings, say: (text: string) => void): Promise<Repaired[]> {
  const { dataDir } = settings;
  const python = await findInterpreter(settings.python);
  const reads = hostReads(process.env, dataDir);
  const { rung } = await requireRung(settings, python.path, reads);
  const network = await requireNetwork(settings, rung, python.path, () => settings.basePort);
  const walls = rung && { rung, python: python.path, dataDir, reads, network };
  const lock = lockDirectory(dataDir);
  try {
    const storage = await settleStorage({
      ...settings,
      rung,
      python: python.path,
      log: createLog(settings.logLevel),
    });
    const store = await openStore(settings);
    const { signal } = new AbortController();
    try {
      const images = { containers: new Containers(settings), baseImage: settings.baseImage };
      const host = { dataDir, python, walls, limits: null, storage, images };
      return await repairEnvironments({ ...host, store, say, signal });
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}
