import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { KillableService } from "../support/killable-service.ts";
import { until } from "../support/until.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

const DEPLOYS = 20;
const CALLS_PER_SECOND = 50;
const STREAMS = 5;
/** Of one stream: it lives through several deploys. */
const CHUNKS = 100;
const CHUNK_MS = 30;

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";

/** Replicas enough for the streams and for the calls beside them. */
const SHARED = "[scaling]\nmax_replicas = 4\nreplica_concurrency = 8\ncooldown = 1\n";
const SINGLE = "[scaling]\nmax_replicas = 8\nreplica_concurrency = 1\ncooldown = 1\n";
const IN_STEPS = `${SHARED}roll_out_duration_seconds = 1\n`;
const KINDS = [
  { kind: "replicas of several calls", toml: SHARED, isRare: false },
  { kind: "replicas of one call", toml: SINGLE, isRare: true },
  { kind: "traffic that moves in steps", toml: IN_STEPS, isRare: true },
];

function mainOf(version: number): string {
  return `import asyncio, time
VERSION = ${version}

def run():
    time.sleep(0.005)
    return VERSION

async def ticks(count):
    for i in range(count):
        await asyncio.sleep(${CHUNK_MS / 1000})
        yield {"version": VERSION, "i": i}
`;
}

const databases = testDatabases();

for (const { kind, toml, isRare } of KINDS) {
  if (isRare && !IS_FULL) continue;
  verifies(
    "deploy.no-failed-call",
    `${DEPLOYS} deploys under ${CALLS_PER_SECOND} calls a second and ${STREAMS} open streams fail no call and cut no stream: ${kind}`,
    async () => {
      const database = await databases.fresh("sqlite");
      const service = await KillableService.deploy(database, { main: mainOf(0), toml });
      expect(await service.start()).toBe(true);
      const load = new Load(service);
      const calling = load.call();
      const streaming = Array.from({ length: STREAMS }, () => load.stream());
      await until("calls and streams are under way", () => load.answered > 20 && load.chunks > STREAMS);
      const client = new DeployClient(service, "app");
      for (let version = 1; version <= DEPLOYS; version++) {
        const zip = await zipOf({ "main.py": mainOf(version), "millrace.toml": toml });
        const { status } = await client.deploy(zip);
        expect({ version, status }).toEqual({ version, status: "success" });
        // While traffic moves in steps, calls still go both ways.
        if (toml !== IN_STEPS) load.oldest = version;
      }
      load.isOver = true;
      await Promise.all([calling, ...streaming]);
      expect(load.faults).toEqual([]);
      expect(load.answered).toBe(load.sent);
      // The calls met many versions, and streams began before deploys and ended after them.
      expect(new Set(load.versions).size).toBeGreaterThan(DEPLOYS / 2);
      expect(load.wholeStreams).toBeGreaterThanOrEqual(STREAMS);
      await service.stop();
      if (IS_FULL) console.log({ kind, calls: load.answered, streams: load.wholeStreams });
    },
  );
}

/** Callers and readers, and what went wrong for them. */
class Load {
  readonly faults: string[] = [];
  readonly versions: number[] = [];
  sent = 0;
  answered = 0;
  chunks = 0;
  wholeStreams = 0;
  /** No call that begins now may be answered by an older version. */
  oldest = 0;
  isOver = false;
  readonly #service: KillableService;

  constructor(service: KillableService) {
    this.#service = service;
  }

  /** So many calls a second, whether or not those before are answered. */
  async call(): Promise<void> {
    const calls: Promise<void>[] = [];
    const startedAt = performance.now();
    while (!this.isOver) {
      calls.push(this.#callOnce());
      await sleep(Math.max(0, startedAt + (calls.length * 1000) / CALLS_PER_SECOND - performance.now()));
    }
    await Promise.all(calls);
  }

  /** One stream after the other. */
  async stream(): Promise<void> {
    while (!this.isOver) await this.#streamOnce().catch((error: unknown) => this.faults.push(String(error)));
  }

  async #callOnce(): Promise<void> {
    this.sent += 1;
    const { oldest } = this;
    try {
      const { status, json } = await this.#service.post({});
      const isFine = status === 200 && json.result >= oldest;
      if (isFine) this.versions.push(json.result);
      else this.faults.push(`${status} ${JSON.stringify(json)} when version ${oldest} served`);
    } catch (error) {
      this.faults.push(String(error));
    }
    this.answered += 1;
  }

  async #streamOnce(): Promise<void> {
    const { oldest } = this;
    const { appUrl, token } = this.#service;
    const response = await fetch(`${appUrl}/ticks`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ count: CHUNKS }),
    });
    let text = "";
    for await (const bytes of response.body ?? []) {
      text += Buffer.from(bytes).toString();
      this.chunks += 1;
    }
    const messages = [...text.matchAll(/^data: (.*)$/gm)].map(
      ([, json = ""]) => JSON.parse(json) as { version: number; i: number },
    );
    const { version = -1 } = messages[0] ?? {};
    const isWhole = messages.every((message, i) => message.i === i && message.version === version);
    if (response.status === 200 && messages.length === CHUNKS && isWhole && version >= oldest) {
      this.wholeStreams += 1;
    } else {
      this.faults.push(`a stream of version ${version} had ${messages.length} messages: ${text.slice(-200)}`);
    }
  }
}
