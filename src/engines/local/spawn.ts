import { PYTHON_DIR } from "../../config/package-files.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Exit, Started, Workload } from "../engine.ts";
import type { WorkloadFolders } from "./host.ts";
import { type HeldFork, hold, judge, explainer } from "./limited.ts";
import { DOOR_ADDRESS } from "./plan.ts";
import { type HeldStart, startHeld } from "./start-held.ts";
import type { OutputEvents } from "../log-lines.ts";

/** Reads its order, then becomes the replica or template that the order names. */
const START = `import sys; sys.path[:1] = [${JSON.stringify(PYTHON_DIR)}]; from millrace_worker.start import main; main()`;

export type Tickets = { readonly template?: string; readonly replica: string };

export type ProcessStart = HeldStart & {
  readonly address: string;
  readonly tickets: Tickets;
};

export type StartedProcess = Started & {
  /** Its memory as the kernel reports it. */
  residentBytes(): Promise<number>;
  /** The limits of the replica with that ticket, which it forks next; null if its agent enforces all of them. */
  holdFork?(ticket: string): HeldFork | null;
  /** Adds the known reason to the exit of a forked replica. */
  explain?(exit: Exit): Promise<Exit>;
  /** Which device files of GPUs its processes see; absent where that is decided at its start. */
  showGpus?(files: readonly string[]): Promise<void>;
  /** Notes that the app was imported, to measure starts. */
  noteImported?(): void;
};

/** Starts a template or replica, which calls home. Its earlier output is reported as lines. */
export type Spawn = (start: ProcessStart, clock: Clock, events: OutputEvents) => StartedProcess;

/** Starts an agent and, below it, a template or a replica. */
export const spawnPython: Spawn = (start, clock, events) => {
  const { workload, folders, tickets, limits, address, walls } = start;
  // In a namespace of its own the first process is the keeper, otherwise the agent.
  const isKept = walls?.level !== "userns" && walls?.level !== "uid";
  // Without namespaces a process keeps the GPUs that it started with.
  const gpuFiles = isKept ? [] : (start.gpus?.all ?? []);
  const order = orderOf(workload, folders, DOOR_ADDRESS, tickets, isKept, gpuFiles);
  const program = { program: start.python.program, args: ["-c", START], order, home: address };
  const started = startHeld(start, program, clock, events);
  if (!("agent" in started)) return over(started);
  const { agent, exited, held, verdict } = started;
  const { questions } = agent;
  const watched = limits?.watched(workload.limits, { scratch: [], storage: null });
  const isMemoryWatched = (watched?.memoryBytes ?? null) !== null;
  return {
    exited,
    kill: () => agent.end(),
    vitals: (pid) => questions.vitals(pid),
    usage: (pid) => questions.usage(pid),
    residentBytes: async () => (await questions.usage(0))?.residentBytes ?? 0,
    ...(held && { judge: (exit: Exit) => judge(exit, held) }),
    holdFork: (ticket) => {
      if (isMemoryWatched) agent.expectFork(ticket);
      const fork = limits && hold(limits, workload.limits, verdict);
      return fork && { ...fork, ancestor: agent.pid };
    },
    ...(gpuFiles.length > 0 && { showGpus: (files: readonly string[]) => agent.showGpus(files) }),
    explain: explainer(workload.limits, verdict, questions),
  };
};

export function orderOf(
  workload: Workload,
  { bundle }: WorkloadFolders,
  address: string,
  { template, replica }: Tickets,
  isKept = false,
  gpuFiles: readonly string[] = [],
): string {
  return JSON.stringify({
    address,
    bundle_dir: bundle,
    concurrency: workload.concurrency,
    ignore_extra: workload.ignoreExtra,
    batching: workload.batching && batchingOf(workload.batching),
    max_result_bytes: workload.maxResultBytes,
    max_chunk_bytes: workload.maxChunkBytes,
    template_ticket: template,
    replica_ticket: replica,
    kept: isKept,
    ...(gpuFiles.length > 0 && { gpu_files: gpuFiles }),
  });
}

/** What the harness has to know of it: when a batch leaves is decided here. */
function batchingOf(batching: NonNullable<Workload["batching"]>) {
  return Object.fromEntries(
    Object.entries(batching).map(([name, { key, size, onError, stepper }]) => [
      name,
      { key, size, on_error: onError, stepper },
    ]),
  );
}

export function over(exit: Exit): StartedProcess {
  return deferred(() => null, { exited: Promise.resolve(exit), kill: () => {} });
}

/** A process that may not exist yet; `begun` returns it once it does. */
export function deferred(
  begun: () => (Started & Partial<StartedProcess>) | null,
  own: Pick<Started, "exited" | "kill" | "leaving">,
): StartedProcess {
  return {
    vitals: (pid) => begun()?.vitals(pid) ?? null,
    usage: async (pid) => (await begun()?.usage(pid)) ?? null,
    obstacle: () => begun()?.obstacle?.() ?? null,
    confine: (pid) => begun()?.confine?.(pid) ?? null,
    hostPid: (pid) => begun()?.hostPid?.(pid) ?? pid,
    judge: (exit) => begun()?.judge?.(exit) ?? exit,
    holdFork: (ticket) => begun()?.holdFork?.(ticket) ?? null,
    explain: async (exit) => (await begun()?.explain?.(exit)) ?? exit,
    noteImported: () => begun()?.noteImported?.(),
    showGpus: async (files) => await begun()?.showGpus?.(files),
    residentBytes: async () => (await begun()?.residentBytes?.()) ?? 0,
    ...own,
  };
}
