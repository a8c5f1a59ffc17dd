import { join } from "node:path";
import type { Place } from "./async-database.ts";
import { startChild } from "./processes.ts";

export type GroupCommitJob = {
  readonly inFlight: number;
  readonly leadInMs: number;
  readonly measureMs: number;
};

/** Runs stored inside the window; a latency is from asking for one to knowing it is on the disk. */
export type GroupCommitResult = {
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
};

/** The bench's end of the bare group commit: one measurement at a time. */
export type GroupCommit = {
  readonly pid: number;
  readonly measure: (job: GroupCommitJob) => Promise<GroupCommitResult>;
  readonly stop: () => Promise<void>;
};

/** Starts the bare group commit in its own process. */
export function startGroupCommit({ dataDir, databaseUrl }: Place): GroupCommit {
  const script = join(import.meta.dirname, "async-floor.ts");
  const child = startChild(process.execPath, [
    script,
    dataDir,
    ...(databaseUrl === null ? [] : [databaseUrl]),
  ]);
  return {
    pid: child.pid,
    measure: async (job) => {
      child.send(JSON.stringify(job));
      return JSON.parse(await child.nextLine()) as GroupCommitResult;
    },
    stop: child.stop,
  };
}
