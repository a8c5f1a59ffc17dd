import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";

/** A function and its share of the time that was not idle. */
export type TopFunction = { readonly name: string; readonly share: number };

type Profile = {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
};

/** The functions that took the most time themselves, by the largest of the CPU profiles in a folder. */
export function topFunctions(folder: string, count: number): TopFunction[] {
  // Each thread writes a profile of its own; the busiest is the event loop that carries the streams.
  const profiles = readdirSync(folder)
    .filter((name) => name.endsWith(".cpuprofile"))
    .map((name) => busyTimes(JSON.parse(readFileSync(join(folder, name), "utf8")) as Profile));
  const [times] = profiles.toSorted((a, b) => total(b) - total(a));
  if (times === undefined) return [];
  const all = total(times);
  return [...times]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([name, us]) => ({ name, share: us / all }));
}

/** Microseconds by function, without waiting. */
function busyTimes({ nodes, samples, timeDeltas }: Profile): Map<string, number> {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const times = new Map<string, number>();
  for (const [i, node] of samples.entries()) {
    const name = names.get(node) ?? "";
    if (name === "(idle)" || name === "(program)" || name === "(root)") continue;
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[i] ?? 0));
  }
  return times;
}

function nameOf({ functionName, url, lineNumber }: Profile["nodes"][number]["callFrame"]): string {
  const name = functionName === "" ? "(anonymous)" : functionName;
  return url === "" ? name : `${name} ${url.startsWith("node:") ? url : basename(url)}:${lineNumber + 1}`;
}

function total(times: ReadonlyMap<string, number>): number {
  return [...times.values()].reduce((sum, us) => sum + us, 0);
}
