import path from "node:path";
import { createHash, timingSafeEqual } from "node:crypto";
import { describeRayTrouble, type Job, type JobsApi } from "./jobs-api.ts";
import { backoffMs } from "../../kit/retry.ts";
import { Condition } from "../../kit/concurrency.ts";
import { type Clock, pause, withTimeout } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import type { PlaceHome } from "../agent/seat-place.ts";
import { readdir, readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { ZipFile } from "yazl";
import { PYTHON_DIR } from "../../config/package-files.ts";

type SupervisorJobParts = {
  readonly api: JobsApi;
  readonly pack: () => Promise<JobPackage>;
  readonly namespace: string;
  readonly home: PlaceHome;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long the first connection may take: Ray has to prepare the node. */
const START_MS = 180_000;
/** How long a connected supervisor may be away before it is replaced. */
const AWAY_MS = 10_000;
const LOOK_MS = 500;
const RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** How long an orderly end may take, and then a forced one. */
const LAST_MS = 5_000;
/** Connections whose proof is being fetched: a supervisor has one. */
const MAX_PROOFS = 4;
const PROOF = /^millrace supervisor ([0-9a-f]{64})$/m;
const FAILURE = /^(?:\w+\.)*\w*(?:Error|Exception)\b|not found|No module/;
const MAX_REASON = 300;

/**
 * Keeps one supervisor running as a job of Ray.
 *
 * submitted → connected → away → connected; submitted or away → over when its job has ended, or it stays away; over →
 * submitted, after a backoff that grows until one connects.
 */
export class SupervisorJob {
  readonly #parts: SupervisorJobParts;
  readonly #stopped = new AbortController();
  readonly #running: Promise<void>;
  #id: string | null = null;
  /** The hash of its token; null until it was read from the job's log. */
  #proof: Buffer | null = null;
  #proofs = 0;
  #phase: "submitted" | "connected" | "away" = "submitted";
  #since = 0;
  #trouble: string | null = "Ray has not started the supervisor of this service yet";
  #isSilent = false;
  readonly #changes = new Condition();

  constructor(parts: SupervisorJobParts) {
    this.#parts = parts;
    this.#running = this.#run();
  }

  /** Why seats cannot start; null while the supervisor is connected. */
  get trouble(): string | null {
    return this.#isConnected() ? null : this.#trouble;
  }

  /** Whether that is the token of the submitted job, whose hash is in the job's log. */
  async isOurs(id: string, token: string): Promise<boolean> {
    if (id !== this.#id || this.#proofs >= MAX_PROOFS) return false;
    this.#proofs += 1;
    try {
      this.#proof ??= await this.#readProof(id);
    } catch {
      // The supervisor retries.
    } finally {
      this.#proofs -= 1;
    }
    const shown = createHash("sha256").update(token).digest();
    return id === this.#id && this.#proof !== null && timingSafeEqual(this.#proof, shown);
  }

  setConnected(isConnected: boolean): void {
    this.#phase = isConnected ? "connected" : "away";
    this.#since = this.#parts.clock.monotonic();
    this.#trouble = "the supervisor of this service on Ray was lost, and another starts";
    this.#changes.notify();
  }

  /** Waits for the end of a supervisor that was told to leave. It stays in Ray's list of jobs. */
  async stop(): Promise<void> {
    const { clock, log } = this.#parts;
    this.#stopped.abort();
    const isOver = await withTimeout(2 * LAST_MS, this.#end(), clock).catch(() => false);
    if (isOver !== true) log.warn("the end of the supervisor on Ray was not seen; it ends by itself");
  }

  async #end(): Promise<boolean> {
    await this.#running;
    const id = this.#id;
    if (id === null || (await this.#isOverIn(id, LAST_MS))) return true;
    await this.#parts.api.stop(id);
    return await this.#isOverIn(id, LAST_MS);
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted;) {
      try {
        await this.#live(await this.#submit());
        failures = this.#phase === "submitted" ? failures + 1 : 0;
      } catch (error) {
        failures += 1;
        this.#reportSilence(error);
        if (!(error instanceof Error)) log.error({ err: error }, "could not supervise seats on Ray");
      }
      if (failures > 0) await pause(clock, backoffMs(failures, RETRY_MS, MAX_RETRY_MS), signal);
    }
  }

  async #submit(): Promise<string> {
    const { api, pack, namespace, home, clock } = this.#parts;
    const { name, archive } = await pack();
    await api.bring(name, archive);
    const before = this.#id;
    const id = `millrace-${randomName(12)}`;
    this.#id = id;
    this.#proof = null;
    // The one before may just have come back. It counts until it is told to leave.
    if (!this.#isConnected()) this.#phase = "submitted";
    this.#since = clock.monotonic();
    const order = { id, namespace, addresses: [home.address], ...home };
    const command = `exec python3 -m millrace_ray ${Buffer.from(JSON.stringify(order)).toString("base64")}`;
    await api.submit(id, command, name);
    this.#reportSilence(null);
    if (before !== null) await this.#discard(before);
    return id;
  }

  /** Returns when the job has ended, or the supervisor has been away for too long. */
  async #live(id: string): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      if (this.#isConnected()) {
        await this.#changes.wait(signal);
        continue;
      }
      const job = await this.#look(id);
      if (this.#isConnected()) continue;
      if (job?.isOver !== false) {
        await this.#explain(id, job);
        return;
      }
      if (clock.monotonic() - this.#since > (this.#phase === "away" ? AWAY_MS : START_MS)) return;
      await pause(clock, LOOK_MS, signal);
    }
  }

  #isConnected(): boolean {
    return this.#phase === "connected";
  }

  /** Null for a job that Ray no longer knows. If Ray does not answer, the job counts as running. */
  async #look(id: string): Promise<Job | null> {
    try {
      const job = await this.#parts.api.look(id);
      this.#reportSilence(null);
      return job;
    } catch (error) {
      this.#reportSilence(error);
      return { isOver: false, message: "" };
    }
  }

  async #explain(id: string, job: Job | null): Promise<void> {
    if (this.#stopped.signal.aborted) return;
    const { api, log } = this.#parts;
    const last = (await api.log(id).catch(() => "")).trim().split("\n").at(-1) ?? "";
    // The last line of a failed program says why; Ray appends the log to its own message.
    const [said = ""] = (job?.message ?? "Ray does not know it any more").split(", last available logs");
    const detail = (FAILURE.test(last) ? last : said).slice(0, MAX_REASON);
    this.#trouble = `the supervisor of this service on Ray has ended: ${detail}`;
    log.warn({ detail }, "the supervisor on Ray has ended; another is started");
  }

  /** Stops a supervisor that was replaced, in case it was only away. */
  async #discard(id: string): Promise<void> {
    const { api } = this.#parts;
    const job = await api.look(id).catch(() => null);
    // If that fails, it ends by itself when no service accepts it.
    if (job?.isOver === false) await api.stop(id).catch(() => {});
  }

  async #readProof(id: string): Promise<Buffer | null> {
    const [, hash] = PROOF.exec(await this.#parts.api.log(id)) ?? [];
    return hash === undefined ? null : Buffer.from(hash, "hex");
  }

  async #isOverIn(id: string, ms: number): Promise<boolean> {
    const { api, clock } = this.#parts;
    const endsAt = clock.monotonic() + ms;
    for (; clock.monotonic() < endsAt; await pause(clock, LOOK_MS))
      if ((await api.look(id))?.isOver !== false) return true;
    return false;
  }

  /** Logs once when Ray stops answering, and once when it answers again. */
  #reportSilence(error: unknown): void {
    const { log, api } = this.#parts;
    if (error !== null) this.#trouble = describeRayTrouble(error);
    if (error === null && this.#isSilent) log.info({ url: api.address }, "Ray answers again");
    if (error !== null && !this.#isSilent)
      log.warn({ url: api.address, detail: this.#trouble }, "Ray does not answer; what runs there continues");
    this.#isSilent = error !== null;
  }
}

/** The packages that run on the cluster: the supervisor, the agents that its actors start, walls, harness and helpers. */
const PACKAGES = [
  "millrace",
  "millrace_agent",
  "millrace_client",
  "millrace_cog",
  "millrace_ray",
  "millrace_walls",
  "millrace_worker",
] as const;
/** A fixed time, so that equal files make equal archives. */
const ENTRY = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true, mode: 0o100644, compress: false };

/** The files of a job under a name derived from their content, so that they are uploaded once. */
type JobPackage = { readonly name: string; readonly archive: Buffer };

/** Packs our Python for the cluster. */
export async function packJob(): Promise<JobPackage> {
  const zip = new ZipFile();
  for (const folder of PACKAGES) {
    const names = await readdir(path.join(PYTHON_DIR, folder));
    for (const name of names.filter((each) => each.endsWith(".py")).toSorted())
      zip.addBuffer(await readFile(path.join(PYTHON_DIR, folder, name)), `${folder}/${name}`, ENTRY);
  }
  zip.end();
  const archive = await buffer(zip.outputStream);
  const hash = createHash("sha256").update(archive).digest("hex").slice(0, 32);
  return { name: `_ray_pkg_${hash}.zip`, archive };
}
