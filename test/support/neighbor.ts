import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { Histogram } from "../../bench/histogram.ts";

/** Where a neighbor of somebody greedy asks, and as whom. */
export type Asked = {
  readonly method: string;
  readonly url: string;
  readonly token: string;
  /** The process that answers. */
  readonly pid: number;
};

/**
 * What a neighbor met at one place: every status there was, and how long the 99th of a hundred answers took, without
 * the time in which the service, or we, had work and no processor to do it on: that is what others do to the machine.
 */
export type Met = { readonly statuses: readonly number[]; readonly p99Ms: number };

const CALLERS = 4;
/** New connections too, now and then: those are what a crowd keeps out. */
const CALLS_PER_CONNECTION = 25;

/**
 * Asks at several places in turn, so often at each: what slows the machine slows all of them alike, and their times
 * can be held against each other.
 */
export async function visit(places: readonly Asked[], times: number): Promise<Met[]> {
  const met = places.map(() => ({ statuses: new Set<number>(), times: new Histogram() }));
  let left = times;
  const come = async (): Promise<void> => {
    while (left > 0) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let calls = 0; left > 0 && calls < CALLS_PER_CONNECTION; calls++) {
        left -= 1;
        for (const [at, place] of places.entries()) {
          const begun = { ms: performance.now(), theirs: waitedMs(place.pid), ours: waitedMs(process.pid) };
          met[at]?.statuses.add(await ask(agent, place));
          const ms = performance.now() - begun.ms;
          // They may have waited at the same time.
          const waited = Math.max(waitedMs(place.pid) - begun.theirs, waitedMs(process.pid) - begun.ours);
          met[at]?.times.add(Math.max(0, ms - waited) * 1_000);
        }
      }
      agent.destroy();
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, come));
  return met.map(({ statuses, times }) => ({
    statuses: [...statuses],
    p99Ms: times.quantileUs(0.99) / 1_000,
  }));
}

/** How long a process's first thread has been ready to run while others ran. */
function waitedMs(pid: number): number {
  const [, waitedNs = 0] = readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ").map(Number);
  return waitedNs / 1e6;
}

function ask(agent: Agent, { method, url, token }: Asked): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const asked = request(url, { method, agent, headers }, (response) => {
      response.resume().once("error", reject);
      response.once("end", () => resolve(response.statusCode ?? 0));
    });
    asked.once("error", reject).end();
  });
}
