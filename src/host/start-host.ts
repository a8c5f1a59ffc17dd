import type { Settings } from "../config/setting-keys.ts";
import type { Clock } from "../kit/clock.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Log } from "../kit/log.ts";
import { Containers } from "./containers/containers.ts";
import { openGpus } from "./gpus/discovery.ts";
import type { GpuSource } from "./gpus/source.ts";
import { findInterpreter } from "./interpreter.ts";
import { findLimits } from "./limits/host-limits.ts";
import { placeVolumes } from "./storage/place-volumes.ts";
import { settleStorage } from "./storage/settle.ts";
import { hostReads } from "./walls/host-reads.ts";
import { requireNetwork, requireLevel } from "./walls/require-walls.ts";
import { clearScratch, scratchRemoved } from "./walls/scratch.ts";

/** Finds the interpreter and the walls of this machine, without changing anything. */
export async function findHost(settings: Settings, managementPort: () => number) {
  const { dataDir } = settings;
  const python = await findInterpreter(settings.python);
  const reads = hostReads(process.env, dataDir);
  const isolated = await requireLevel(settings, python.path, reads);
  const { level } = isolated;
  const network = await requireNetwork(settings, level, python.path, managementPort);
  const walls = level && { level, python: python.path, dataDir, reads, network };
  return { python, reads, isolated, level, network, walls };
}

export type FoundHost = Awaited<ReturnType<typeof findHost>>;

/** Prepares this machine for apps: removes leftovers of an earlier service, and sets up limits and storage. */
export async function startHost(
  { python, level }: FoundHost,
  settings: Settings,
  {
    clock,
    log,
    gpus: given,
  }: { readonly clock: Clock; readonly log: Log; readonly gpus?: GpuSource | undefined },
  life: Lifecycle,
) {
  await life.start(
    "scratch folders",
    () => clearScratch(settings.dataDir, log),
    () => scratchRemoved(clock),
  );
  const limits = await life.start(
    "limits of apps",
    () => findLimits(settings, level),
    (found) => found.close(),
  );
  // Files for apps must be readable by their users; the data directory itself keeps other users out.
  if (level === "uid") process.umask(0o022);
  await placeVolumes(settings);
  const storage = await settleStorage({ ...settings, level, python: python.path, log });
  const containers = await life.start(
    "containers",
    () => Containers.open(settings, log),
    (opened) => opened.close(),
  );
  // Clusters find their own.
  const own = settings.engine === "process" ? settings.gpus : ({ kind: "none" } as const);
  const gpus =
    given ??
    (await life.start(
      "GPUs",
      () => openGpus(own, { python: python.path, clock, log }),
      (opened) => opened.close(),
    ));
  return { limits, storage, containers, gpus };
}
