import path from "node:path";
import { createHash, timingSafeEqual } from "node:crypto";
import { describeRayTrouble } from "./jobs-api.ts";
import type { Job, JobsApi } from "./jobs-api.ts";
import { backoffMs } from "../../kit/retry.ts";
import { Condition } from "../../kit/concurrency.ts";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Log } from "../../kit/log.ts";
import { pause, withTimeout } from "../../kit/clock.ts";
import type { PlaceHome } from "../agent/seat-place.ts";
import { readdir, readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { ZipFile } from "yazl";
import { PYTHON_DIR } from "../../config/package-files.ts";

type SupervisorJobParts = {
  readonly api: JobsApi;
  readonly pack: () => Promise<JobPackage>;
  /** Where the actors of this service get their names. */
  readonly namespace: string;
  readonly home: PlaceHome;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long the first connection may take: Ray prepares the node, and a busy one takes its time. */
const START_MS = 180_000;
/** How long one that was here may be away before another is started in its place. */
const AWAY_MS = 10_000;
const LOOK_MS = 500;
const RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** How long an orderly end may take; and as long again, one that is not. */
const LAST_MS = 5_000;
/** Connections whose proof is being looked up: a supervisor has one. */
const MAX_PROOFS = 4;
const PROOF = /^millrace supervisor ([0-9a-f]{64})$/m;
const FAILURE = /^(?:\w+\.)*\w*(?:Error|Exception)\b|not found|No module/;
const MAX_REASON = 300;

/**
 * Keeps one supervisor running as a job of Ray.
 *
 * submitted → here → away → here; submitted or away → over when its job has ended, or it stays away; over → submitted,
 * after a pause that grows as long as none comes.
 */
export class SupervisorJob {
  readonly #parts: SupervisorJobParts;
  readonly #stopped = new AbortController();
  readonly #running: Promise<void>;
  #id: string | null = null;
  /** What its token has to hash to; null until its log was read. */
  #proof: Buffer | null = null;
  #proofs = 0;
  #isHere = false;
  #wasHere = false;
  #awaySince = 0;
  #trouble: string | null = "Ray has not started the supervisor of this service yet";
  #isSilent = false;
  /** Notified when it comes or goes. */
  readonly #changes = new Condition();

  constructor(parts: SupervisorJobParts) {
    this.#parts = parts;
    this.#running = this.#run();
  }

  /** What keeps seats from starting; null while it is here. */
  get trouble(): string | null {
    return this.#isHere ? null : this.#trouble;
  }

  /** Whether that is the token of the job which we submitted: its hash stands in the job's log. */
  async isOurs(id: string, token: string): Promise<boolean> {
    if (id !== this.#id || this.#proofs >= MAX_PROOFS) return false;
    this.#proofs += 1;
    try {
      this.#proof ??= await this.#readProof(id);
    } catch {
      // It tries again.
    } finally {
      this.#proofs -= 1;
    }
    const shown = createHash("sha256").update(token).digest();
    return id === this.#id && this.#proof !== null && timingSafeEqual(this.#proof, shown);
  }

  /** It is connected now, or not any more. */
  setHere(isHere: boolean): void {
    this.#isHere = isHere;
    this.#wasHere = true;
    this.#awaySince = this.#parts.clock.monotonic();
    this.#trouble = "the supervisor of this service on Ray was lost, and another starts";
    this.#changes.notify();
  }

  /** When it was told to leave: waits for its end. That it was there stays in Ray's list of jobs, as of any other. */
  async stop(): Promise<void> {
    const { clock, log } = this.#parts;
    this.#stopped.abort();
    const isOver = await withTimeout(2 * LAST_MS, this.#end(), clock);
    if (isOver !== true) log.warn("the supervisor on Ray was not seen to end; it ends by itself");
  }

  async #end(): Promise<boolean> {
    await this.#running;
    const id = this.#id;
    if (id === null) return true;
    try {
      if (await this.#isOverIn(id, LAST_MS)) return true;
      await this.#parts.api.stop(id);
      return await this.#isOverIn(id, LAST_MS);
    } catch {
      return false;
    }
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted;) {
      try {
        await this.#live(await this.#submit());
        failures = this.#wasHere ? 0 : failures + 1;
      } catch (error) {
        failures += 1;
        this.#tellSilence(error);
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
    this.#wasHere = false;
    this.#awaySince = clock.monotonic();
    const order = { id, namespace, addresses: [home.address], ...home };
    const command = `exec python3 -m millrace_ray ${Buffer.from(JSON.stringify(order)).toString("base64")}`;
    await api.submit({ id, command, package: name });
    this.#tellSilence(null);
    if (before !== null) await this.#discard(before);
    return id;
  }

  /** Stays as long as the job does, or until it has been away for too long. */
  async #live(id: string): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      if (this.#isHere) {
        await this.#changes.wait(signal);
        continue;
      }
      const job = await this.#look(id);
      if (this.#isHere) continue;
      if (job?.isOver !== false) {
        await this.#explain(id, job);
        return;
      }
      if (clock.monotonic() - this.#awaySince > (this.#wasHere ? AWAY_MS : START_MS)) return;
      await pause(clock, LOOK_MS, signal);
    }
  }

  /** Null for a job that Ray does not know any more. One that cannot be asked for has not ended for that. */
  async #look(id: string): Promise<Job | null> {
    try {
      const job = await this.#parts.api.look(id);
      this.#tellSilence(null);
      return job;
    } catch (error) {
      this.#tellSilence(error);
      return { isOver: false, message: "" };
    }
  }

  async #explain(id: string, job: Job | null): Promise<void> {
    if (this.#stopped.signal.aborted) return;
    const { api, log } = this.#parts;
    const last = (await api.log(id).catch(() => "")).trim().split("\n").at(-1) ?? "";
    // Of a program that fails, the last line says why; Ray tells all of them, behind its own words.
    const [said = ""] = (job?.message ?? "Ray does not know it any more").split(", last available logs");
    const detail = (FAILURE.test(last) ? last : said).slice(0, MAX_REASON);
    this.#trouble = `the supervisor of this service on Ray has ended: ${detail}`;
    log.warn({ detail }, "the supervisor on Ray has ended; another is started");
  }

  /** One that was replaced: it may still be there, if it was only away. */
  async #discard(id: string): Promise<void> {
    const { api } = this.#parts;
    try {
      if ((await api.look(id))?.isOver === false) await api.stop(id);
    } catch {
      // It ends by itself when nobody takes it in.
    }
  }

  async #readProof(id: string): Promise<Buffer | null> {
    const [, hash] = PROOF.exec(await this.#parts.api.log(id)) ?? [];
    return hash === undefined ? null : Buffer.from(hash, "hex");
  }

  async #isOverIn(id: string, ms: number): Promise<boolean> {
    const { api, clock } = this.#parts;
    const endsAt = clock.monotonic() + ms;
    while (clock.monotonic() < endsAt) {
      if ((await api.look(id))?.isOver !== false) return true;
      await pause(clock, LOOK_MS);
    }
    return false;
  }

  /** Once when it begins, and once when it ends. */
  #tellSilence(error: unknown): void {
    const { log, api } = this.#parts;
    if (error !== null) this.#trouble = describeRayTrouble(error);
    if (error === null && this.#isSilent) log.info({ url: api.address }, "Ray answers again");
    if (error !== null && !this.#isSilent)
      log.warn({ url: api.address, detail: this.#trouble }, "Ray does not answer; what runs there goes on");
    this.#isSilent = error !== null;
  }
}

/** What runs on the cluster: the supervisor, the agent that its actors start, walls, and the harness behind them. */
const PACKAGES = ["millrace_ray", "millrace_agent", "millrace_walls", "millrace_worker"] as const;
/** Where the format's time begins: equal files make equal archives. */
const ENTRY = { mtime: new Date(1980, 0, 1), forceDosTimestamp: true, mode: 0o100644, compress: false };

/** The files of a job, and the name that Ray knows them by: made of what is in them, so that they come there once. */
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
