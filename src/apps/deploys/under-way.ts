import path from "node:path";
import { rm } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import type { App } from "../../model/app.ts";
import { BUILD_STATUSES, type BuildStatus, isFinalBuild } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import type { LiveApp } from "../versions/open-version.ts";
import type { BuildLog, BuildLogs } from "./build-log.ts";
import { BuildQueue } from "./build-queue.ts";
import { workDir, carryOut, type CarryOutParts, DeployFailure, failureOf, type Source } from "./carry-out.ts";
import type { RegistryAuth } from "./deploy-request.ts";
import { sizeText } from "../builds/site.ts";

type Open = {
  readonly id: string;
  readonly app: App;
  readonly payload: unknown;
  /** It is gone with the process that the build began in. */
  readonly registryAuth: RegistryAuth | null;
  readonly log: BuildLog;
  /** In monotonic milliseconds; -Infinity for one that another process began, whose sender may be gone. */
  readonly addedAt: number;
  /** Aborted with how it is to end. */
  readonly ending: AbortController;
  source: Source | null;
  /** What became of its source: null while it waits for one. */
  work: Promise<LiveApp> | null;
  /** It takes over the calls, which nothing stops. */
  isSwitching: boolean;
};

const SHARES = { total: 4, perProject: 2 };
/** From its turn on: a build that hangs gives its place back. Large packages that are compiled take an hour. */
const MAX_BUILD_MS = 3 * 60 * 60 * 1000;
const TOOK_TOO_LONG = "the build took longer than three hours";
/** An upload usually follows at once: after so long its app may move to another node. */
const STALE_MS = 10_000;
/** Builds of each app that are remembered, apart from those whose version is. */
const KEPT_BUILDS = 100;

/** Every build that has not ended, from its birth to its one end. */
export class BuildsUnderWay {
  readonly #parts: CarryOutParts;
  readonly #logs: BuildLogs;
  readonly #queue = new BuildQueue(SHARES);
  readonly #open = new Map<string, Open>();
  readonly ended = new Map<BuildStatus, number>(
    BUILD_STATUSES.filter(isFinalBuild).map((status) => [status, 0]),
  );

  constructor(parts: CarryOutParts, logs: BuildLogs) {
    this.#parts = parts;
    this.#logs = logs;
  }

  has(buildId: string): boolean {
    return this.#open.has(buildId);
  }

  ofApp(appNumber: number): string[] {
    return [...this.#open.values()].filter(({ app }) => app.number === appNumber).map(({ id }) => id);
  }

  /** Whether it has waited for its source for so long that its sender may have given up. */
  isStale(buildId: string): boolean {
    const addedAt = this.#open.get(buildId)?.addedAt ?? Infinity;
    return this.isWaiting(buildId) && this.#parts.clock.monotonic() - addedAt > STALE_MS;
  }

  /** Whether it still waits for its source. */
  isWaiting(buildId: string): boolean {
    const open = this.#open.get(buildId);
    return open !== undefined && open.work === null && !open.ending.signal.aborted;
  }

  /** Takes in a build, which waits for its source. */
  async add(build: Pick<Open, "id" | "app" | "payload" | "registryAuth" | "addedAt">): Promise<void> {
    const log = await this.#logs.open(build.id);
    const state = { source: null, work: null, isSwitching: false };
    this.#open.set(build.id, { ...build, log, ending: new AbortController(), ...state });
  }

  /** Forgets a build that came to nothing before it was stored, or that waits for its source at another node. */
  drop(buildId: string): void {
    const open = this.#open.get(buildId);
    if (open) this.#logs.close(open.log);
    this.#open.delete(buildId);
  }

  /** Starts a waiting build; resolves with what then serves, rejects with how it failed. */
  start(buildId: string, source: Source): Promise<LiveApp> {
    const open = this.#open.get(buildId);
    if (!open || !this.isWaiting(buildId)) throw new Error(`the build ${buildId} does not wait`);
    if (source.kind === "zip") open.log.say("upload", `${sizeText(source.bytes)} received`);
    if (this.#queue.isFull(open.app)) open.log.say("upload", "waiting for another build to end");
    open.source = source;
    open.work = this.#work(open, source);
    // The caller may not await it: the build's own record tells how it ended.
    open.work.catch(() => undefined);
    return open.work;
  }

  /** Ends a build at once; resolves when nothing is left of it. Throws `build_finished` when it was too late. */
  async cancel(buildId: string): Promise<void> {
    const open = this.#open.get(buildId);
    if (!open) throw new AppError("build_finished");
    if (!open.isSwitching) await this.#stop(open, new DeployFailure("cancelled", "the build was cancelled"));
    else await open.work;
    const ended = await this.#parts.store.builds.find(buildId);
    if (ended?.status !== "cancelled") throw new AppError("build_finished");
  }

  /** Ends a build that still waits for its source. */
  async giveUp(buildId: string, message: string): Promise<void> {
    const open = this.#open.get(buildId);
    if (open && this.isWaiting(buildId)) await this.#stop(open, new DeployFailure("build_failure", message));
  }

  /** Ends all that have their source; the others wait again after the next start. */
  async stop(message: string): Promise<void> {
    const working = [...this.#open.values()].filter(({ work }) => work !== null);
    await Promise.all(
      working.map(async (open) => {
        if (!open.isSwitching) open.ending.abort(new DeployFailure("build_failure", message));
        await open.work?.catch(() => undefined);
      }),
    );
  }

  async #stop(open: Open, how: DeployFailure): Promise<void> {
    open.ending.abort(how);
    open.work ??= this.#end(open, how);
    await open.work.catch(() => undefined);
  }

  async #work(open: Open, source: Source): Promise<LiveApp> {
    const { signal } = open.ending;
    const onSwitch = (): void => void (open.isSwitching = true);
    const deploy = { ...open, buildId: open.id, source, signal, onSwitch };
    try {
      const carry = async (): Promise<LiveApp> => {
        const limit = this.#parts.clock.after(MAX_BUILD_MS, () => {
          if (!open.isSwitching) open.ending.abort(new DeployFailure("build_failure", TOOK_TOO_LONG));
        });
        return await carryOut(deploy, this.#parts).finally(() => limit.cancel());
      };
      const live = await this.#queue.run(open.app, carry, signal);
      await this.#finish(open, "success", null);
      return live;
    } catch (error) {
      return await this.#end(open, signal.aborted ? signal.reason : error);
    }
  }

  /** Writes down why it failed, and throws it. */
  async #end(open: Open, error: unknown): Promise<never> {
    let failure = failureOf(error);
    if (!failure) {
      this.#parts.log.error({ err: error, buildId: open.id }, "a build failed with an internal error");
      failure = new DeployFailure("build_failure", "internal error in the service; deploy again");
    }
    const stage = open.log.lines.at(-1)?.stage ?? "upload";
    for (const line of failure.lines) open.log.say(stage, line, "stderr");
    await this.#finish(open, failure.status, failure.message);
    throw failure;
  }

  /** Removes what is left over, then stores the outcome, then ends the log's followers. */
  async #finish(open: Open, status: BuildStatus, message: string | null): Promise<void> {
    const { store, dataDir, clock, log } = this.#parts;
    try {
      await removeTree(path.join(workDir(dataDir), open.id));
      if (open.source?.kind === "zip") await rm(open.source.file, { force: true });
      await open.log.flush();
      await store.builds.move({ id: open.id, to: status, message, now: clock.now() });
      await store.builds.prune({ appNumber: open.app.number, keep: KEPT_BUILDS });
    } catch (error) {
      // The sweep finds it again: it is not under way, and not ended.
      log.error({ err: error, buildId: open.id }, "could not store the outcome of a build");
    }
    this.ended.set(status, (this.ended.get(status) ?? 0) + 1);
    this.#open.delete(open.id);
    this.#logs.close(open.log);
  }
}
