import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../src/config/settings.ts";
import { READER_LIMITS } from "../../src/gateway/events/feeds.ts";
import { storageFolder } from "../../src/host/data-folders.ts";
import { openFilesLimit } from "../../src/config/listener-limits.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { scratchDirectory, serve } from "../support/command-line.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { Harm } from "../support/harm.ts";
import { type Asked, visit } from "../support/neighbor.ts";
import { memoryBytes } from "../support/process-tree.ts";
import { WAIT_FOR } from "../support/run-apps.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

const GREEDY = "p-greedy00";
/** Messages a second of each stream. */
const RATE = 20;
const CALLS = 3_000;
const MAX_RATIO = 3;
const STREAMS = 4;

const TICKER = `${WAIT_FOR}
def tick(gate, pause):
    i = 0
    while not os.path.exists(gate_file(gate)):
        i += 1
        yield ("%d " % i).ljust(80, ".")
        time.sleep(pause)
`;
const TOML = `[scaling]\nmax_replicas = ${STREAMS}\nresponse_grace_period = "1h"\n`;

type Site = {
  readonly call: Asked;
  readonly greedyUrl: string;
  readonly greedyToken: string;
  readonly dataDir: string;
};

/** A service of its own process with two projects: one is called, the other streams. */
async function site(): Promise<Site> {
  const dataDir = path.join(scratchDirectory(), "data");
  const { settings } = readSettings({ flags: { dataDir, apiPort: 0, basePort: 0 }, env: {} });
  const service = await startService(settings, { log: createLog("silent") });
  const { store, owner, tokens, baseUrl } = service;
  await store.projects.insert({ id: GREEDY, name: "greedy", createdAt: 1 });
  const account = { projectId: GREEDY, name: "greedy", role: "admin" as const };
  const { token } = await tokens.issue({ ...account, expiresAt: Date.now() + 36_000_000 });
  for (const [place, name, files] of [
    [{ projectId: owner.projectId, token: owner.token }, "app", { "main.py": "def run():\n    return 1\n" }],
    [{ projectId: GREEDY, token }, "ticker", { "main.py": TICKER, "millrace.toml": TOML }],
  ] as const) {
    const { status } = await new DeployClient({ baseUrl, ...place }, name).deploy(await zipOf(files));
    expect([name, status]).toEqual([name, "success"]);
  }
  await service.stop();
  const { command, apiUrl } = await serve(dataDir);
  const url = `${apiUrl}/v4/${owner.projectId}/app/run`;
  return {
    call: { pid: command.pid, method: "POST", url, token: owner.token },
    greedyUrl: `${apiUrl}/v4/${GREEDY}/ticker`,
    greedyToken: token,
    dataDir,
  };
}

/** Begins a stream that goes on until its gate is open; gives the address of its events. */
async function begin({ greedyUrl, greedyToken: token }: Site, gate: string): Promise<string> {
  const body = JSON.stringify({ gate, pause: 1 / RATE });
  const headers = { "x-disconnect": "continue" };
  const live = new StreamReader({ url: `${greedyUrl}/tick`, token, headers, body });
  await live.hasMessages(1);
  return `${greedyUrl}/runs/${live.runId}/events`;
}

function letGo({ dataDir }: Site, gate: string): void {
  writeFileSync(path.join(storageFolder(GREEDY, dataDir), `ticker.${gate}`), "");
}

/** The status of one more reader. */
async function oneMore(url: string, token: string): Promise<number> {
  const leaving = new AbortController();
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${token}` },
    signal: leaving.signal,
  });
  leaving.abort();
  return response.status;
}

type Told = { readonly statuses: Record<string, number>; readonly open: number; readonly ended: number };

verifies(
  ["runs.events.crowd", "runs.events.limits"],
  `beside ${READER_LIMITS.ofRun} readers of one stream, and ${READER_LIMITS.ofProject} of a project, calls take at most ${MAX_RATIO} times as long`,
  async ({ skip }) => {
    const needed = READER_LIMITS.ofProject * 1.5;
    if ((openFilesLimit() ?? needed) < needed) skip(`a process may not open ${needed} files`);
    // The second is left alone: what slows the machine down slows both.
    const [harmed, beside] = [await site(), await site()];
    const places = [harmed.call, beside.call];
    await visit(places, CALLS);
    for (const [name, count, streams] of [
      ["one stream", READER_LIMITS.ofRun, 1],
      ["one project", READER_LIMITS.ofProject, STREAMS],
    ] as const) {
      const before = memoryBytes(harmed.call.pid);
      const gates = Array.from({ length: streams }, (_, n) => `${count}-${n}`);
      const urls: string[] = [];
      for (const gate of gates) urls.push(await begin(harmed, gate));
      const crowd = new Harm<Told>("reader-crowd", { urls, token: harmed.greedyToken, count });
      await crowd.says("all were answered");
      for (const url of urls) expect(await oneMore(url, harmed.greedyToken)).toBe(429);
      const met = await visit(places, CALLS);
      const [with_, without] = met.map(({ p99Ms }) => p99Ms) as [number, number];
      const grownMb = (memoryBytes(harmed.call.pid) - before) / 1e6;
      console.log(
        `${count} readers of ${name}: p99 ${with_.toFixed(1)} ms, ${without.toFixed(1)} ms at a service beside it, ` +
          `ratio ${(with_ / without).toFixed(2)}; ${grownMb.toFixed(0)} MB more`,
      );
      expect(met.map(({ statuses }) => statuses)).toEqual([[200], [200]]);
      expect(with_ / without).toBeLessThanOrEqual(MAX_RATIO);
      for (const gate of gates) letGo(harmed, gate);
      await crowd.says("all have had the end");
      expect(await crowd.end()).toMatchObject({ statuses: { 200: count }, ended: count });
    }
  },
);
