import { expect } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import { testDatabases } from "../../support/databases.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { KillableService } from "../../support/killable-service.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const DEPLOYS = IS_FULL ? 20 : 4;
const STREAMS = 5;
/** Each calls when a message of the first stream has come: no more than some 60 calls a second in all. */
const CALLERS = 2;
/** Of one stream, and the pause between them: it lives through a deploy or more. */
const CHUNKS = IS_FULL ? 100 : 50;
const CHUNK_MS = 30;

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
    `${DEPLOYS} deploys while calls and ${STREAMS} streams are under way fail no call and cut no stream: ${kind}`,
    async () => {
      const database = await databases.fresh("sqlite");
      const service = await KillableService.deploy(database, { main: mainOf(0), toml });
      expect(await service.start()).toBe(true);
      const load = new Load(service);
      const streaming = Array.from({ length: STREAMS }, (_, index) => load.stream(index === 0));
      const calling = Array.from({ length: CALLERS }, () => load.call());
      await until("calls and streams are under way", () => load.versions.has(0), load.news);
      const client = new DeployClient(service, "app");
      for (let version = 1; version <= DEPLOYS; version++) {
        const zip = await zipOf({ "main.py": mainOf(version), "millrace.toml": toml });
        const { status } = await client.deploy(zip);
        expect({ version, status }).toEqual({ version, status: "success" });
        // While traffic moves in steps, calls still go both ways.
        if (toml !== IN_STEPS) load.oldest = version;
        load.newest = version;
        await until("a call met it", () => load.versions.has(version) || load.faults.length > 0, load.news);
      }
      load.finish();
      await Promise.all([...calling, ...streaming]);
      expect(load.faults).toEqual([]);
      expect(load.answered).toBe(load.sent);
      expect(load.versions.size).toBe(DEPLOYS + 1);
      expect(load.wholeStreams).toBeGreaterThanOrEqual(STREAMS);
      // Those that were read when the last one took over began before that, and ended after it.
      expect(load.outlived).toBeGreaterThanOrEqual(STREAMS);
      await service.stop();
      if (IS_FULL) console.log({ kind, calls: load.answered, streams: load.wholeStreams });
    },
  );
}

/** Callers and readers, and what went wrong for them. */
class Load {
  readonly faults: string[] = [];
  /** Those that have answered a call. */
  readonly versions = new Set<number>();
  sent = 0;
  answered = 0;
  wholeStreams = 0;
  /** Streams during which another version took over. */
  outlived = 0;
  /** No call that begins now may be answered by an older version. */
  oldest = 0;
  /** The version that was deployed last. */
  newest = 0;
  /** Notified for every answer of a call. */
  readonly news = new Condition();
  /** Notified for every piece of the first stream: the calls' measure. */
  readonly #beat = new Condition();
  #isOver = false;
  readonly #service: KillableService;

  constructor(service: KillableService) {
    this.#service = service;
  }

  /** One call after the other, in step with the first stream. */
  async call(): Promise<void> {
    while (!this.#isOver) {
      await this.#beat.wait();
      await this.#callOnce();
    }
  }

  /** One stream after the other. */
  async stream(isFirst: boolean): Promise<void> {
    const onPiece = (): void => {
      if (isFirst) this.#beat.notify();
    };
    while (!this.#isOver) {
      await this.#streamOnce(onPiece).catch((error: unknown) => this.faults.push(String(error)));
    }
  }

  /** No further calls, and no further streams. */
  finish(): void {
    this.#isOver = true;
    this.#beat.notify();
  }

  async #callOnce(): Promise<void> {
    this.sent += 1;
    const { oldest } = this;
    try {
      const { status, json } = await this.#service.post({});
      const isFine = status === 200 && json.result >= oldest;
      if (isFine) this.versions.add(json.result);
      else this.faults.push(`${status} ${JSON.stringify(json)} when version ${oldest} served`);
    } catch (error) {
      this.faults.push(String(error));
    }
    this.answered += 1;
    this.news.notify();
  }

  async #streamOnce(onPiece: () => void): Promise<void> {
    const { oldest, newest } = this;
    const { appUrl, token } = this.#service;
    const response = await fetch(`${appUrl}/ticks`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ count: CHUNKS }),
    });
    let text = "";
    for await (const bytes of response.body ?? []) {
      text += Buffer.from(bytes).toString();
      onPiece();
    }
    const messages = [...text.matchAll(/^data: (.*)$/gm)].map(
      ([, json = ""]) => JSON.parse(json) as { version: number; i: number },
    );
    const { version = -1 } = messages[0] ?? {};
    const isWhole = messages.every((message, i) => message.i === i && message.version === version);
    if (response.status === 200 && messages.length === CHUNKS && isWhole && version >= oldest) {
      this.wholeStreams += 1;
      if (this.newest > newest) this.outlived += 1;
    } else {
      this.faults.push(`a stream of version ${version} had ${messages.length} messages: ${text.slice(-200)}`);
    }
  }
}
