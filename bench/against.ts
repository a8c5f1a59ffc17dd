import { resolve } from "node:path";
import { measureFreshSets } from "./fresh-sets.ts";
import { makeScratchDir } from "./scratch.ts";
import type { Subject } from "./subject.ts";
import { startMillrace } from "./subjects/millrace.ts";
import { measureSync, type SubjectResult, type SyncSettings } from "./sync.ts";
import { judge, ratio, type Verdict } from "./targets.ts";
import { turnOrder } from "./turn-order.ts";

const LEAST = 0.98;

/** Measures this checkout beside another one, as pairs of fresh services. */
export async function measureAgainst(
  checkout: string,
  settings: SyncSettings,
): Promise<readonly SubjectResult[]> {
  const subjects = [
    subject("before", checkout, resolve(checkout)),
    subject("millrace", "this checkout", undefined),
  ];
  let set = 0;
  return await measureFreshSets(settings, async (each) => {
    // The one that is started first differs from pair to pair.
    const results = await measureSync(turnOrder(subjects, set++), each);
    return subjects.flatMap(({ id }) => results.find((result) => result.id === id) ?? []);
  });
}

/** Changes must not make calls slower. */
export function judgeAgainst(results: readonly SubjectResult[]): Verdict[] {
  const find = (id: Subject["id"]) => results.find((result) => result.id === id);
  const [now, before] = [find("millrace"), find("before")];
  return [
    judge({
      what: "calls/s at 32 connections, now / before",
      bound: "at least",
      target: LEAST,
      unit: "ratio",
      ...ratio(now, before, 32, (round) => round.callsPerSecond),
    }),
    judge({
      what: "calls per second of processor time at 32 connections, now / before",
      bound: "at least",
      target: LEAST,
      unit: "ratio",
      ...ratio(now, before, 32, (round) => 1 / round.cpuUs),
    }),
  ];
}

function subject(id: "before" | "millrace", name: string, checkout: string | undefined): Subject {
  return {
    id,
    name,
    expects: '"hello ada"',
    start: async () => {
      const { callUrl, headers, pid, stop } = await startMillrace(makeScratchDir(), ["hello"], { checkout });
      return { url: callUrl("hello"), headers, pid, stop };
    },
  };
}
