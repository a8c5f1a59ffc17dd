import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { systemClock } from "../../src/kit/clock.ts";
import { DeployClient } from "./deploy-client.ts";
import type { Roll } from "./dice.ts";
import { JudgedCalls } from "./judged-calls.ts";
import type { KillableService, PostOptions } from "./killable-service.ts";
import { LEDGER_APP, resultOf } from "./ledger.ts";
import type { TestApp } from "./service.ts";
import type { SmallDisk } from "./small-disk.ts";
import { zipOf } from "./zip.ts";

const MB = 1_000_000;
const CHUNKS = 40;
const CHUNK_BYTES = 20_000;
const LINES = 500;
const LINE_BYTES = 1_000;
const PIECE_BYTES = 8 * MB;
const BUNDLE_BYTES = 4 * MB;
const MAX_PAD_BYTES = 300_000;

/** Prints, streams, stores, and writes down what it executes in a place that is not on the disk. */
export function diskApp(ledgerDir: string): TestApp {
  const main = `${LEDGER_APP.replace('os.environ["PERSISTENT_STORAGE"]', JSON.stringify(ledgerDir))}
import shutil

KEPT = os.path.join(os.environ["PERSISTENT_STORAGE"], "kept")

def say(lines, width):
    for i in range(lines):
        print("%d " % i + "x" * width)
    return lines

def tell(count, width, run_id):
    note("begin", run_id)
    for i in range(count):
        yield "x" * width
    note("end", run_id)

def keep(size):
    """False when the disk is full."""
    os.makedirs(KEPT, exist_ok=True)
    name = os.path.join(KEPT, str(time.time_ns()))
    try:
        with open(name, "wb") as piece:
            piece.write(os.urandom(size))
            piece.flush()
            os.fsync(piece.fileno())
        return True
    except OSError:
        return False

def drop():
    shutil.rmtree(KEPT, ignore_errors=True)
`;
  const scaling = "[scaling]\nmax_replicas = 3\nreplica_concurrency = 8\n";
  return { main, toml: `${scaling}[limits]\nresult_retention = "1m"\n` };
}

/** How long an app leaves the disk full, and then without what it had stored. */
export type Rests = { readonly fullMs: number; readonly emptyMs: number };

/** Callers who keep a small disk busy, each of one kind, and what they were told. */
export class DiskLoad {
  readonly calls = new JudgedCalls();
  /** Bytes that were given to the service to keep, or printed, streamed and stored by its apps. */
  writtenBytes = 0;
  /** Sync calls that were answered, of those so many while async runs were refused. */
  syncCalls = 0;
  syncWhileRefused = 0;
  /** How often async runs were refused after some were taken, and taken after some were refused. */
  refusals = 0;
  returns = 0;
  readonly streams = { whole: 0, refused: 0 };
  readonly deploys = { success: 0, refused: 0, failed: 0 };
  /** How often an app met the end of the disk. */
  fulls = 0;
  leastFreeBytes = Number.POSITIVE_INFINITY;
  /** What the slowest sync call took beyond its own time: a figure for who reads it. */
  slowestMs = 0;
  #isRefused = false;
  #isOver = false;
  #n = 0;
  #version = 0;
  readonly #service: KillableService;
  readonly #disk: SmallDisk;
  readonly #roll: Roll;
  readonly #rests: Rests;

  constructor(service: KillableService, disk: SmallDisk, roll: Roll, rests: Rests) {
    this.#rests = rests;
    this.#service = service;
    this.#disk = disk;
    this.#roll = roll;
  }

  /** No more calls. */
  finish(): void {
    this.#isOver = true;
  }

  /** All of them at once, until the load is over. */
  async run(): Promise<void> {
    const kinds = [
      () => this.callOnce(20),
      () => this.callOnce(100),
      () => this.submit(),
      () => this.submit(),
      () => this.#stream({}),
      () => this.#stream({ "x-disconnect": "continue" }),
      () => this.#print(),
      () => this.#store(),
      () => this.deploy(),
    ];
    const repeat = async (act: () => Promise<unknown>): Promise<void> => {
      while (!this.#isOver) await act();
    };
    await Promise.all(kinds.map(repeat));
  }

  /** A sync call that takes so long; it is what everybody else goes by, too. */
  async callOnce(ms: number): Promise<void> {
    const n = (this.#n += 1);
    const sentAt = systemClock.monotonic();
    const { status, json } = await this.#post({ n, ms, pad: "x".repeat(1_000) });
    this.slowestMs = Math.max(this.slowestMs, systemClock.monotonic() - sentAt - ms);
    if (status !== 200 || json.result !== resultOf(n)) this.calls.fault("a sync call", { status, json });
    this.syncCalls += 1;
    if (this.#isRefused) this.syncWhileRefused += 1;
    this.leastFreeBytes = Math.min(this.leastFreeBytes, this.#disk.freeBytes);
  }

  async submit(): Promise<void> {
    const n = (this.#n += 1);
    const pad = "x".repeat(this.#roll(MAX_PAD_BYTES));
    const { status, headers, json } = await this.#post({ n, pad }, { query: "?async=true" });
    const id = headers.get("x-request-id") ?? "";
    const became = this.calls.judgeAsync(n, { id, status, ...json });
    const isRefused = became === "refused";
    if (isRefused && !this.#isRefused) this.refusals += 1;
    if (!isRefused && this.#isRefused) this.returns += 1;
    this.#isRefused = isRefused;
    if (!isRefused) this.writtenBytes += pad.length;
    await this.callOnce(isRefused ? 300 : 30);
  }

  /** Stores until the disk is full, stays so for a while, and lets go of it all. */
  async #store(): Promise<void> {
    for (let hasRoom = true; hasRoom && !this.#isOver;) {
      const { status, json } = await this.#post({ size: PIECE_BYTES }, { functionName: "keep" });
      if (status !== 200) this.calls.fault("a call that stores", { status, json });
      hasRoom = json.result === true;
      this.writtenBytes += hasRoom ? PIECE_BYTES : 0;
      await this.callOnce(500);
    }
    if (!this.#isOver) this.fulls += 1;
    await this.callOnce(this.#rests.fullMs);
    await this.letGo();
    await this.callOnce(this.#rests.emptyMs);
  }

  /** What apps have stored is gone. */
  async letGo(): Promise<void> {
    const { status, json } = await this.#post({}, { functionName: "drop" });
    if (status !== 200) this.calls.fault("a call that removes", { status, json });
  }

  async #print(): Promise<void> {
    const { status, json } = await this.#post({ lines: LINES, width: LINE_BYTES }, { functionName: "say" });
    if (status !== 200) this.calls.fault("a call that prints", { status, json });
    this.writtenBytes += LINES * LINE_BYTES;
    await this.callOnce(500);
  }

  async #stream(headers: Record<string, string>): Promise<void> {
    const { appUrl, token } = this.#service;
    const response = await fetch(`${appUrl}/tell`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      body: JSON.stringify({ count: CHUNKS, width: CHUNK_BYTES }),
    });
    const id = response.headers.get("x-request-id") ?? "";
    const text = await response.text().catch((error: unknown) => `broken off: ${String(error)}`);
    const isWhole = text.split("\n\n").length === CHUNKS + 1;
    if (response.status === 200 && isWhole) {
      this.streams.whole += 1;
      this.calls.answered.add(id);
      this.writtenBytes += text.length;
    } else if (response.status === 503 && "x-disconnect" in headers) {
      this.streams.refused += 1;
      const { code, message } = JSON.parse(text) as { code: string; message: string };
      this.calls.judgeRefusal("a stream", { id, status: 503, code, message });
    } else this.calls.fault("a stream", { status: response.status, text: text.slice(-300) });
    await this.callOnce(300);
  }

  /** A new version of another app; one that is refused or fails leaves the version before. */
  async deploy(): Promise<void> {
    const client = new DeployClient(this.#service, "other");
    const version = this.#version + 1;
    const filler = randomBytes(BUNDLE_BYTES / 2).toString("hex");
    const main = `def run():\n    return ${version}\n`;
    // Its replica goes when it has answered: each call needs another, whatever the disk holds.
    const zip = await zipOf({ "main.py": main, "millrace.toml": "[scaling]\ncooldown = 0\n", filler });
    try {
      const { status, buildId } = await client.deploy(zip);
      if (status === "success") {
        this.deploys.success += 1;
        this.#version = version;
        this.writtenBytes += BUNDLE_BYTES;
      } else {
        this.deploys.failed += 1;
        const log = await client.log(buildId);
        if (!/space|storage|disk/.test(log.join("\n"))) this.calls.fault("a deploy", { status, log });
      }
    } catch (error) {
      if (!/\b503\b/.test(String(error))) this.calls.fault("a deploy", inspect(error));
      this.deploys.refused += 1;
    }
    await this.#expectVersion();
    await this.callOnce(2_000);
  }

  async #expectVersion(): Promise<void> {
    if (this.#version === 0) return;
    const { appUrl, token } = this.#service;
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(appUrl.replace(/app$/, "other/run"), { method: "POST", headers });
    const text = await response.text();
    const isServed = response.status === 200 && text.includes(`"result":${this.#version},`);
    if (!isServed) this.calls.fault("the deployed app", { wanted: this.#version, text });
  }

  async #post(body: object, options: PostOptions = {}) {
    return await this.#service.post(body, options);
  }
}
