import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { Agent, request } from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { Histogram } from "../../bench/histogram.ts";
import { openFilesLimit } from "../../src/kit/listener/open-files.ts";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { packEnded } from "../../src/store/runs.ts";
import { bootstrap, scratchDirectory, serve } from "../support/command-line.ts";
import { idAt, sampleEnd, sampleRun } from "../support/sample-run.ts";
import { writeApp } from "../support/service.ts";
import { verifies } from "../verifies.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const CONNECTIONS = IS_FULL ? 20_000 : 500;
const HEAVY_READS = 200;
const RUNS = IS_FULL ? 100_000 : 5_000;
const CALLS = IS_FULL ? 2_000 : 200;
const CALLERS = 4;
/** One process of the crowd holds no more, whatever the limit on open files is. */
const PER_PROCESS = 5_000;
const ATTACKER = "p-attacker";
const CROWD = fileURLToPath(new URL("../support/crowd.ts", import.meta.url));

type Site = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
  readonly attackerToken: string;
};

/** A service in a process of its own: an app that is called, and another project with many runs. */
async function site(): Promise<Site> {
  const directory = scratchDirectory();
  const dataDir = path.join(directory, "data");
  const { settings } = readSettings({ flags: { dataDir, apiPort: 0, basePort: 0 }, env: {} });
  const service = await startService(settings, { log: createLog("silent") });
  const main = "def run():\n    return 1\n";
  await service.install(await writeApp(path.join(directory, "sources"), "app", { main }));
  const { store } = service;
  await store.projects.insert({ id: ATTACKER, name: "attacker", createdAt: 1 });
  const { number: appNumber } = await store.apps.insertOrFind({
    projectId: ATTACKER,
    name: "app",
    createdAt: 1,
  });
  const now = Date.now();
  for (let first = 0; first < RUNS; first += 5_000) {
    const ends = Array.from({ length: Math.min(5_000, RUNS - first) }, (_, place) => {
      const createdAt = now - 3_000_000 + (first + place) * (2_000_000 / RUNS);
      return sampleEnd(
        sampleRun({ id: idAt(createdAt), appNumber, createdAt, responseMs: 1 + (place % 100) }),
      );
    });
    await store.runs.insertFinished([packEnded(ends)]);
  }
  const account = {
    projectId: ATTACKER,
    name: "attacker",
    role: "admin" as const,
    expiresAt: now + 3_600_000,
  };
  const { token: attackerToken } = await service.tokens.issue(account);
  await service.stop();
  const { apiUrl, baseUrl } = await serve(dataDir);
  const { fields } = await bootstrap(dataDir);
  return { apiUrl, baseUrl, projectId: fields.project_id, token: fields.token, attackerToken };
}

/** One request on a connection that is kept; its status, and how long it took. */
function ask(
  agent: Agent,
  method: string,
  url: string,
  token: string,
): Promise<{ status: number; us: number }> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const asked = request(
      url,
      { method, agent, headers: { authorization: `Bearer ${token}` } },
      (response) => {
        response.resume();
        response.once("error", reject);
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, us: (performance.now() - begun) * 1_000 }),
        );
      },
    );
    asked.once("error", reject).end();
  });
}

/** What a neighbor met: its statuses, and the 99th of a hundred of its times. */
type Met = { readonly statuses: readonly number[]; readonly p99Ms: number; readonly times: Histogram };

async function neighbor(count: number, askOnce: (agent: Agent) => ReturnType<typeof ask>): Promise<Met> {
  const times = new Histogram();
  const statuses = new Set<number>();
  let left = count;
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      // New connections too, now and then: those are what a crowd keeps out.
      let agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let calls = 1; left > 0; calls++) {
        left -= 1;
        const { status, us } = await askOnce(agent);
        statuses.add(status);
        times.add(us);
        if (calls % 25 > 0) continue;
        agent.destroy();
        agent = new Agent({ keepAlive: true, maxSockets: 1 });
      }
      agent.destroy();
    }),
  );
  return { statuses: [...statuses], p99Ms: times.quantileUs(0.99) / 1_000, times };
}

const callsOf = ({ apiUrl, projectId, token }: Site) =>
  neighbor(CALLS, (agent) => ask(agent, "POST", `${apiUrl}/v4/${projectId}/app/run`, token));
const readsOf = ({ baseUrl, projectId, token }: Site) =>
  neighbor(CALLS / 2, (agent) => ask(agent, "GET", `${baseUrl}/v2/projects/${projectId}/apps`, token));

/** Holds so many connections from many addresses; half of them from one. */
async function crowd(url: string): Promise<void> {
  const processes = Math.ceil(CONNECTIONS / PER_PROCESS);
  const many = Array.from({ length: 50 }, (_, place) => `127.1.0.${place + 1}`);
  const held = Array.from({ length: processes }, (_, place) => {
    const part = {
      url,
      count: Math.floor(CONNECTIONS / processes),
      addresses: place % 2 === 0 ? many : ["127.2.0.1"],
      againPerSecond: Math.ceil(500 / processes),
    };
    const child = spawn(process.execPath, [
      "--disable-warning=ExperimentalWarning",
      CROWD,
      JSON.stringify(part),
    ]);
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    onTestFinished(async () => {
      child.stdin.end();
      await ended;
    });
    return child;
  });
  await Promise.all(held.map((child) => said(child, "all have come")));
}

async function said(child: ChildProcessWithoutNullStreams, words: string): Promise<void> {
  let text = "";
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (data) => {
      text += String(data);
      if (text.includes(words)) resolve();
    });
    child.once("close", () => reject(new Error(`the crowd ended early: ${text}`)));
  });
}

/** Asks for figures without a pause, so many at a time, until it is told to stop. */
function heavyReads({ baseUrl, attackerToken }: Site): {
  /** Resolves when those who came at once have been refused or let in. */
  readonly underWay: Promise<void>;
  stop(): Promise<ReadonlyMap<number, number>>;
} {
  const agent = new Agent({ keepAlive: true });
  const statuses = new Map<number, number>();
  const { promise: underWay, resolve } = Promise.withResolvers<void>();
  let answered = 0;
  let isOver = false;
  const url = `${baseUrl}/v2/projects/${ATTACKER}/figures?range=1h`;
  const readers = Array.from({ length: HEAVY_READS }, async () => {
    while (!isOver) {
      const { status } = await ask(agent, "GET", url, attackerToken).catch(() => ({ status: 0 }));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      answered += 1;
      if (answered === HEAVY_READS / 4) resolve();
      // As a client does that heeds Retry-After, but in more of a hurry.
      if (status !== 200) await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  });
  return {
    underWay,
    stop: async () => {
      isOver = true;
      agent.destroy();
      await Promise.all(readers);
      return statuses;
    },
  };
}

function tell(what: string, alone: Met, crowded: Met): void {
  const ratio = crowded.p99Ms / alone.p99Ms;
  process.stderr.write(
    `  ${what}: p99 ${alone.p99Ms.toFixed(1)} ms alone, ${crowded.p99Ms.toFixed(1)} ms in the crowd, ${ratio.toFixed(2)} x\n`,
  );
  expect([what, crowded.statuses]).toEqual([what, [200]]);
  // How fast is a matter of the machine, which the short form shares with everything else.
  if (IS_FULL) expect(ratio, what).toBeLessThanOrEqual(5);
}

function hasDescriptors(skip: (note: string) => void): void {
  const limit = openFilesLimit() ?? Number.POSITIVE_INFINITY;
  const needed = Math.min(CONNECTIONS, PER_PROCESS) + 500;
  if (limit >= needed) return;
  const note = `${CONNECTIONS} connections were NOT tried: a process may open ${limit} files, and ${needed} are needed`;
  process.stderr.write(`\n  ${note}\n`);
  skip(note);
}

for (const listener of ["apiUrl", "baseUrl"] as const) {
  verifies(
    ["listener.crowd", "shares.crowd"],
    `${CONNECTIONS} idle and half-sent connections on ${listener}, ${HEAVY_READS} heavy reads by one project: another's calls and reads all succeed`,
    async ({ skip }) => {
      hasDescriptors(skip);
      const running = await site();
      await callsOf(running); // Everything is started and compiled.
      await readsOf(running);
      const [calls, reads] = [await callsOf(running), await readsOf(running)];
      await crowd(running[listener]);
      const heavy = heavyReads(running);
      await heavy.underWay;
      const [crowdedCalls, crowdedReads] = [await callsOf(running), await readsOf(running)];
      const statuses = await heavy.stop();
      process.stderr.write(`\n  ${CONNECTIONS} on ${listener}; figures: ${JSON.stringify([...statuses])}\n`);
      tell("sync calls", calls, crowdedCalls);
      tell("management reads", reads, crowdedReads);
    },
    IS_FULL ? 1_200_000 : undefined,
  );
}
