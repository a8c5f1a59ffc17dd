import path from "node:path";
import { expect } from "vitest";
import { testSettings } from "../support/test-settings.ts";
import { openFilesLimit } from "../../src/config/listener-limits.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { scratchDirectory, serve } from "../support/command-line.ts";
import { Harm } from "../support/harm.ts";
import { type Asked, type Met, visit } from "../support/neighbor.ts";
import { idAt, sampleEnd, sampleRun } from "../support/sample-run.ts";
import { writeApp } from "../support/service.ts";
import { verifies } from "../verifies.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const CONNECTIONS = IS_FULL ? 20_000 : 500;
const HEAVY_READS = 200;
const LOG_SOCKETS = IS_FULL ? 1_000 : 300;
const RUNS = IS_FULL ? 100_000 : 5_000;
/** In the short form a few from each of the neighbors, with a new connection or two. */
const CALLS = IS_FULL ? 2_000 : 120;
/** One process of the crowd holds no more, whatever the limit on open files is. */
const PER_PROCESS = 5_000;
const GREEDY = "p-greedy";

type Site = {
  readonly apiUrl: string;
  readonly baseUrl: string;
  readonly projectId: string;
  readonly token: string;
  readonly greedyToken: string;
  readonly pid: number;
};

/** A service in a process of its own: an app that is called, and another project with many runs. */
async function site(): Promise<Site> {
  const directory = scratchDirectory();
  const dataDir = path.join(directory, "data");
  const settings = testSettings({ dataDir, apiPort: 0, basePort: 0 });
  const service = await startService(settings, { log: createLog("silent") });
  const { store, owner, tokens } = service;
  const main = "def run():\n    return 1\n";
  await service.install(await writeApp(path.join(directory, "sources"), "app", { main }));
  await store.projects.insert({ id: GREEDY, name: "greedy", createdAt: 1 });
  const { number: appNumber } = await store.apps.insertOrFind({
    projectId: GREEDY,
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
  const account = { projectId: GREEDY, name: "greedy", role: "admin" as const, expiresAt: now + 3_600_000 };
  const { token: greedyToken } = await tokens.issue(account);
  await service.stop();
  const { apiUrl, baseUrl, command } = await serve(dataDir);
  const { pid } = command;
  return { pid, apiUrl, baseUrl, projectId: owner.projectId, token: owner.token, greedyToken };
}

const callOf = ({ apiUrl, projectId, token, pid }: Site): Asked => ({
  pid,
  method: "POST",
  url: `${apiUrl}/v4/${projectId}/app/run`,
  token,
});
const readOf = ({ baseUrl, projectId, token, pid }: Site): Asked => ({
  pid,
  method: "GET",
  url: `${baseUrl}/v2/projects/${projectId}/apps`,
  token,
});

/** What calls and reads meet at each of some services that are asked in turn. */
async function neighbors(sites: readonly Site[]): Promise<{ calls: Met[]; reads: Met[] }> {
  const calls = await visit(sites.map(callOf), CALLS);
  return { calls, reads: await visit(sites.map(readOf), CALLS / 2) };
}

/** Many connections from many addresses, half of them from one. */
function crowd(url: string): Harm<{ readonly open: number }>[] {
  const processes = Math.max(2, Math.ceil(CONNECTIONS / PER_PROCESS));
  const many = Array.from({ length: 50 }, (_, place) => `127.1.0.${place + 1}`);
  return Array.from({ length: processes }, (_, place) => {
    const addresses = place % 2 === 0 ? many : ["127.2.0.1"];
    const count = CONNECTIONS / processes;
    return new Harm("crowd", { url, count, addresses, againPerSecond: Math.ceil(500 / processes) });
  });
}

/** Both of a project's statuses, by what it asked for. */
type Greed = Readonly<Record<"reads" | "sockets", Readonly<Record<string, number>>>>;

function greed({ baseUrl, greedyToken: token }: Site): Harm<Greed> {
  const order = { baseUrl, projectId: GREEDY, token, reads: HEAVY_READS, sockets: LOG_SOCKETS };
  return new Harm("greedy-project", order);
}

/**
 * Tells how much slower a neighbor is than alone: than before the harm began, or than at a service beside it that
 * nobody harms, asked in the same breath. The slower of the two is what the machine allows.
 */
function expectBearable(what: string, [before]: readonly Met[], [harmed, beside]: readonly Met[]): void {
  const alone = Math.max(before?.p99Ms ?? 0, beside?.p99Ms ?? 0);
  const ratio = (harmed?.p99Ms ?? 0) / alone;
  const times = [before, beside, harmed].map((met) => `${met?.p99Ms.toFixed(1)} ms`);
  process.stderr.write(
    `  ${what}: p99 ${times[0]} before, ${times[1]} at a service beside it, ${times[2]} in the crowd: ${ratio.toFixed(2)} x\n`,
  );
  expect({ what, isBearable: ratio <= 5 }).toEqual({ what, isBearable: true });
}

/** Node has asked for as many open files as the machine lets it have. */
function needDescriptors(skip: (note: string) => void): void {
  const limit = openFilesLimit() ?? Number.POSITIVE_INFINITY;
  const needed = Math.min(CONNECTIONS, PER_PROCESS) + LOG_SOCKETS + HEAVY_READS + 500;
  if (limit >= needed) return;
  const note = `${CONNECTIONS} connections were NOT tried: a process may open ${limit} files, and ${needed} are needed`;
  process.stderr.write(`\n  ${note}\n`);
  skip(note);
}

verifies(
  ["listener.crowd", "shares.crowd"],
  `under ${CONNECTIONS} idle and half-sent connections on either listener, ${HEAVY_READS} heavy reads and ${LOG_SOCKETS} log sockets of one project another's calls and reads all succeed`,
  async ({ skip }) => {
    needDescriptors(skip);
    const running = await site();
    const sites = IS_FULL ? [running, await site()] : [running];
    if (IS_FULL) await neighbors(sites); // Everything is started and compiled.
    const before = await neighbors([running]);
    const greedy = greed(running);
    await greedy.says("all were answered");
    for (const listener of ["apiUrl", "baseUrl"] as const) {
      const members = crowd(running[listener]);
      await Promise.all(members.map((member) => member.says("all have come")));
      const { calls, reads } = await neighbors(sites);
      const open = (await Promise.all(members.map((member) => member.end()))).map((told) => told.open);
      expect(Math.min(...open)).toBeGreaterThan(0);
      expect([listener, calls[0]?.statuses, reads[0]?.statuses]).toEqual([listener, [200], [200]]);
      if (!IS_FULL) continue;
      process.stderr.write(
        `\n  ${CONNECTIONS} connections on ${listener}, of which ${open.join(" + ")} held:\n`,
      );
      expectBearable("sync calls", before.calls, calls);
      expectBearable("management reads", before.reads, reads);
    }
    const seen = await greedy.end();
    if (IS_FULL) process.stderr.write(`  ${JSON.stringify(seen)}\n`);
    // It had its share and no more. Its connections may be those that make room on a full listener (0).
    const answers = (of: Greed["reads"]) => Object.keys(of).filter((status) => status !== "0");
    expect(["200,429", "200,429,503"]).toContain(answers(seen.reads).join(","));
    expect(["101,429", "101,429,503"]).toContain(answers(seen.sockets).join(","));
  },
  IS_FULL ? 1_200_000 : undefined,
);
