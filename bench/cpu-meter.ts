import { cpuMsOf, descendantsOf, machineCpuMs } from "./proc.ts";

/** Processes by what they do. */
export type Roles = Readonly<Record<"service" | "database" | "load", readonly number[]>>;

/** CPU time since the meter was started. */
export type CpuUse = {
  readonly serviceMs: number;
  /** Of all processes below the service. */
  readonly belowMs: number;
  readonly databaseMs: number;
  readonly loadMs: number;
  /** Cores that the rest of the machine took. */
  readonly othersCores: number;
};

/** Starts to count what these processes, all below the service, and the rest of the machine use. */
export function startCpuMeter(roles: Roles): () => CpuUse {
  const below = roles.service.flatMap(descendantsOf);
  const groups = [roles.service, roles.database, roles.load, below, [process.pid]];
  const read = () => groups.map((pids) => pids.map(cpuMsOf));
  const startedAt = performance.now();
  const machineBefore = machineCpuMs();
  const before = read();
  return () => {
    const used = read().map((now, group) =>
      // A process that has ended meanwhile counts for nothing, not for less.
      now.reduce((sum, ms, i) => sum + Math.max(0, ms - before[group]![i]!), 0),
    );
    const ours = used.reduce((sum, ms) => sum + ms, 0);
    const othersMs = Math.max(0, machineCpuMs() - machineBefore - ours);
    const [serviceMs = 0, databaseMs = 0, loadMs = 0, belowMs = 0] = used;
    return {
      serviceMs,
      belowMs,
      databaseMs,
      loadMs,
      othersCores: othersMs / (performance.now() - startedAt),
    };
  };
}
