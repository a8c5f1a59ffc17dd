import { join } from "node:path";
import { startChild, withOpenFiles } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";
import type { Running, Subject } from "../subject.ts";
import { measureSync } from "../sync.ts";
import type { SubjectResult, SyncSettings } from "../sync.ts";
import { judge, ratio } from "../targets.ts";
import type { Verdict } from "../targets.ts";

/** What is between the service and a replica that the service reaches by TLS. */
const WAYS = {
  passthrough: "bare TLS pass-through to the replica",
  millrace: "a seat elsewhere",
} as const;
type Way = keyof typeof WAYS;

/** Measures calls of an app in a seat elsewhere, beside the same through a bare TLS pass-through. */
export async function measureSeats(settings: SyncSettings): Promise<SubjectResult[]> {
  const subjects = (Object.keys(WAYS) as Way[]).map((id): Subject => ({
    id,
    name: WAYS[id],
    expects: '"hello ada"',
    start: () => startSeat(id),
  }));
  return await measureSync(subjects, settings);
}

/** What `npm run bench seats` is for. */
export function judgeSeats(subjects: readonly SubjectResult[]): Verdict[] {
  const find = (id: Way) => subjects.find((subject) => subject.id === id);
  return [
    judge({
      what: "seat elsewhere / TLS pass-through, calls/s at 32 connections",
      bound: "at least",
      target: 0.7,
      unit: "ratio",
      ...ratio(find("millrace"), find("passthrough"), 32, (round) => round.callsPerSecond),
    }),
  ];
}

async function startSeat(way: Way): Promise<Running> {
  const args = [
    join(import.meta.dirname, "seat-child.ts"),
    way,
    makeScratchDir(),
    join(import.meta.dirname, "../apps/hello"),
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
