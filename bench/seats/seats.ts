import { join } from "node:path";
import { setup, type TestCluster } from "../../test/support/kubernetes/cluster-setup.ts";
import { startChild, withOpenFiles } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";
import type { Running, Subject } from "../subject.ts";
import { measureSync, type SubjectResult, type SyncSettings } from "../sync.ts";
import { judge, ratio, type Verdict } from "../targets.ts";

/** What is between the service and a replica that the service reaches by TLS. */
const WAYS = {
  passthrough: "bare TLS pass-through to the replica",
  millrace: "a seat elsewhere",
  pod: "a pod of a real cluster",
} as const;
type Way = keyof typeof WAYS;

/**
 * Measures calls of an app in a seat elsewhere, beside the same through a bare TLS pass-through. The seat is a process of
 * this machine, and a pod where there is a cluster.
 */
export async function measureSeats(settings: SyncSettings): Promise<SubjectResult[]> {
  const { cluster, stop } = await findCluster();
  try {
    const ways = (Object.keys(WAYS) as Way[]).filter((id) => id !== "pod" || cluster);
    const subjects = ways.map((id): Subject => ({
      id,
      name: WAYS[id],
      expects: '"hello ada"',
      start: () => startSeat(id, cluster),
    }));
    return await measureSync(subjects, settings);
  } finally {
    stop();
  }
}

/** What `npm run bench seats` is for. */
export function judgeSeats(subjects: readonly SubjectResult[]): Verdict[] {
  const find = (id: Way) => subjects.find((subject) => subject.id === id);
  const beside = (id: Way): Verdict =>
    judge({
      what: `${WAYS[id]} / TLS pass-through, calls/s at 32 connections`,
      bound: "at least",
      target: 0.7,
      unit: "ratio",
      ...ratio(find(id), find("passthrough"), 32, (round) => round.callsPerSecond),
    });
  return [beside("millrace"), ...(find("pod") ? [beside("pod")] : [])];
}

type FoundCluster = { readonly cluster: TestCluster | null; readonly stop: () => void };

/** The cluster that tests use, if there is one. */
async function findCluster(): Promise<FoundCluster> {
  let cluster: TestCluster | null = null;
  const provide = (_name: string, value: TestCluster | null): void => void (cluster = value);
  const stop = await setup({ provide } as never);
  return { cluster, stop };
}

async function startSeat(way: Way, cluster: TestCluster | null): Promise<Running> {
  const args = [
    join(import.meta.dirname, "seat-child.ts"),
    way,
    makeScratchDir(),
    join(import.meta.dirname, "../apps/hello"),
    ...(way === "pod" ? [JSON.stringify(cluster)] : []),
  ];
  const child = startChild(...withOpenFiles(process.execPath, args));
  const { url, token } = JSON.parse(await child.nextLine()) as { url: string; token: string };
  return {
    url,
    headers: { Authorization: `Bearer ${token}` },
    pid: child.pid,
    stop: () => child.stop(),
  };
}
