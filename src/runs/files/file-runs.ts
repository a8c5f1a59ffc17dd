import path from "node:path";
import { appPython, hiddenPython, missingPython } from "../../host/app-python.ts";
import type { AppLimits, Limits } from "../../host/limits/limits.ts";
import type { StorageFolders } from "../../host/storage/folders.ts";
import { runProgram } from "../../engines/programs/run-program.ts";
import type { AppWalls } from "../../host/walls/walls.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { chownTree, mkdir, stat } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { Counts } from "../../kit/concurrency.ts";
import { RUN_AHEAD_MS, UuidSource } from "../../kit/ids.ts";
import { retry } from "../../kit/retry.ts";
import type { Log } from "../../kit/log.ts";
import type { App } from "../../model/app.ts";
import type { Network, PythonWish } from "../../model/app-config.ts";
import { AppError } from "../../model/errors.ts";
import { isFileRun, type Run } from "../../model/run.ts";
import type { LogStream } from "../../model/log-line.ts";
import type { AcceptedRun } from "../../store/runs/accepted-runs.ts";
import type { Store } from "../../store/store.ts";
import type { StorageWatch } from "../../store/upkeep/storage-watch.ts";
import { abandonedRun, endedRun, keptFile, startedRun } from "./file-run.ts";
import type { FileRunEnd, FileRunRequest } from "./file-run.ts";

export type FileRunsParts = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly dataDir: string;
  readonly storage: Pick<StorageFolders, "make" | "userOf">;
  readonly python: string;
  readonly walls: AppWalls | null;
  readonly limits: AppLimits | null;
  readonly owner: string;
  /** Stores a run, or rejects; `end` is called if a run in doubt turns out to be stored. */
  readonly accept: (accepted: AcceptedRun, end: () => void) => Promise<void>;
  readonly reserve: Pick<StorageWatch, "refusal">;
  readonly context: FileContext;
};

/** What a file run gets from its app. */
export type FileContext = {
  /** Unpacks a tar into an empty folder; throws `upload_invalid`. */
  unpack(tar: AsyncIterable<Buffer>, folder: string): Promise<void>;
  timeLimitMs(app: App): number;
  /** Null for any Python. */
  python(app: App): PythonWish | null;
  limits(app: App): Limits;
  sockets(app: App): { readonly network: Network; readonly unixSockets: boolean };
  /** Its environment variables, without those for folders of this machine. */
  variables(app: App, runId: string): Promise<Record<string, string>>;
  onLine(app: App, runId: string, line: { readonly text: string; readonly stream: LogStream }): void;
};

export type FileToRun = FileRunRequest & {
  /** The folder of its packages; null when it has none. */
  readonly environment: string | null;
  /** The first lines of its log. */
  readonly warnings: readonly string[];
  /** Has the archive unpacked as it arrives; resolves with the JSON for `--data`, null for none. */
  readonly receive: (unpack: (tar: AsyncIterable<Buffer>) => Promise<void>) => Promise<string | null>;
};

/** Each needs processes and a folder; more would slow the apps down. */
const MAX_AT_ONCE = 32;
/** Of one project, so that others get places. */
const MAX_OF_PROJECT = 16;
/** Processes that a file starts inherit the data as a variable, which may have 128 KiB on Linux. */
const MAX_DATA_BYTES = 128_000;
const LOOK_MS = 30_000;
const LOOK_RUNS = 1_000;
const RETRY_MS = 1_000;

type ReadyRun = {
  readonly run: Run;
  readonly app: App;
  readonly file: FileToRun;
  readonly data: string | null;
  readonly folder: string;
};

/** File runs, of uploaded files that run once: each has a folder of its own, a record, and lines in its app's log. */
export class FileRuns {
  readonly #parts: FileRunsParts;
  readonly #dir: string;
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  readonly #running = new Set<Promise<void>>();
  /** Ends each run in progress, by the run's id. */
  readonly #cancels = new Map<string, AbortController>();
  readonly #stopping = new AbortController();
  /** Runs in progress, and those that are still arriving, by project. */
  readonly #counts = new Counts<string>();
  #isClosed = false;
  #looking: Timer | null = null;

  constructor(parts: FileRunsParts) {
    this.#parts = parts;
    this.#dir = path.join(parts.dataDir, "once");
  }

  /** Removes what an earlier service has left. */
  async start(): Promise<void> {
    await removeTree(this.#dir);
    await this.#endAbandoned();
    this.#looking = this.#parts.clock.every(LOOK_MS, () => {
      this.#endAbandoned().catch((error: unknown) =>
        this.#parts.log.error({ err: error }, "could not look up file runs left by an earlier service"),
      );
    });
  }

  /** Receives a file with what is around it and starts it; resolves with the run's id. */
  async run(app: App, file: FileToRun): Promise<string> {
    if (this.#isClosed) throw new AppError("draining");
    const { projectId } = app;
    const ofProject = this.#counts.of(projectId);
    if (this.#counts.total >= MAX_AT_ONCE || ofProject >= MAX_OF_PROJECT) {
      const isOne = ofProject >= MAX_OF_PROJECT;
      const runs = isOne ? `${ofProject} file runs of this project` : `${this.#counts.total} file runs`;
      throw new AppError("queue_full", { message: `${runs} are already in progress; try again shortly.` });
    }
    const { clock, context } = this.#parts;
    const createdAt = clock.now();
    const id = this.#ids.next(createdAt);
    const folder = path.join(this.#dir, id);
    this.#counts.add(projectId, 1);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const data = await file.receive((tar) => context.unpack(this.#whileRoom(tar), folder));
      if (data !== null && Buffer.byteLength(data) > MAX_DATA_BYTES) {
        const message = `The data is larger than ${MAX_DATA_BYTES} bytes.`;
        throw new AppError("body_too_large", { message });
      }
      await requireFile(folder, file.fileName);
      const run = startedRun(file, { id, appNumber: app.number, createdAt }, clock.now());
      await this.#accept(run);
      this.#track(this.#run({ run, app, file, data, folder }).finally(() => this.#counts.add(projectId, -1)));
      return id;
    } catch (error) {
      this.#counts.add(projectId, -1);
      await this.#remove(folder);
      throw error;
    }
  }

  /** Ends a run with everything that it has started; false if it is not in progress here. */
  cancel(runId: string): boolean {
    const cancel = this.#cancels.get(runId);
    cancel?.abort();
    return cancel !== undefined;
  }

  /** Takes no new runs; resolves when those in progress have ended. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#running);
  }

  /** Ends the runs in progress; resolves when their ends are stored. */
  async stop(): Promise<void> {
    this.#looking?.cancel();
    this.#stopping.abort();
    await this.drain();
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  /** Passes the upload on while the disk has room. */
  async *#whileRoom(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      const message = this.#parts.reserve.refusal;
      if (message !== null) throw new AppError("storage_unavailable", { message });
      yield chunk;
    }
  }

  async #accept(run: Run): Promise<void> {
    const { accept, clock, owner } = this.#parts;
    const payload = { input: null, result: null, contentType: null, isBare: false, sealedSecret: null };
    // Its folder is gone by then, and its caller got `in_doubt`.
    const end = () => this.#track(this.#keepEnd(endedRun(run, "interrupted", clock.now())));
    await accept({ run, payload, owner }, end);
  }

  /** Never rejects. */
  async #run(ready: ReadyRun): Promise<void> {
    const { run, folder } = ready;
    const cancel = new AbortController();
    this.#cancels.set(run.id, cancel);
    const end = await this.#execute(ready, cancel.signal).catch((error: unknown): FileRunEnd => {
      this.#parts.log.error({ err: error, runId: run.id }, "could not carry out a file run");
      return "interrupted";
    });
    // From now on it cannot be cancelled.
    this.#cancels.delete(run.id);
    await this.#remove(folder);
    await this.#keepEnd(endedRun(run, end, this.#parts.clock.now()));
  }

  async #execute({ run, app, file, data, folder }: ReadyRun, cancelled: AbortSignal): Promise<FileRunEnd> {
    const { python: own, walls, limits, context, clock, storage: folders, dataDir } = this.#parts;
    const wish = context.python(app);
    const python = await appPython(file.environment, wish, { own, dataDir });
    if (python === null) return { code: 1, detail: missingPython(wish?.version), lastWords: "" };
    const storage = folders.make(app.projectId);
    const variables = await context.variables(app, run.id);
    const user = folders.userOf(app.projectId);
    const scratch = walls && makeScratch(dataDir, user);
    // It was unpacked by the service, and nothing of it has run.
    if (user !== null) await chownTree(folder, user);
    const late = new AbortController();
    const timer = clock.after(context.timeLimitMs(app), () => late.abort());
    const sockets = context.sockets(app);
    const start = { file, data, python, variables, folder, storage, scratch, user, walls, sockets };
    const held = limits && {
      host: limits,
      limits: context.limits(app),
      folders: { scratch: scratch === null ? [] : [scratch, folder], storage },
    };
    const onLine = (text: string, stream: LogStream) => context.onLine(app, run.id, { text, stream });
    for (const warning of file.warnings) onLine(`[millrace] warning: ${warning}`, "stderr");
    try {
      const signal = AbortSignal.any([late.signal, cancelled, this.#stopping.signal]);
      const end = await runProgram(own, { ...keptFile(start), held, onLine }, signal, clock);
      const hidden = hiddenPython(python, end.code, walls);
      return hidden === null ? end : { ...end, lastWords: hidden };
    } catch (error) {
      if (cancelled.aborted) return "cancelled";
      if (this.#stopping.signal.aborted) return "interrupted";
      if (late.signal.aborted) return "timed_out";
      throw error;
    } finally {
      timer.cancel();
      if (scratch !== null) await removeScratch(scratch);
    }
  }

  /** Stores the end, with retries while the storage does not answer. */
  async #keepEnd(run: Run): Promise<void> {
    const { store, owner, clock, log } = this.#parts;
    const { signal } = this.#stopping;
    const end = { run, fence: 1, owner, result: null, part: null, delivery: null };
    await retry(() => store.claims.finish([end]), {
      clock,
      delayMs: () => RETRY_MS,
      shouldRetry: (error) => {
        log.error({ err: error, runId: run.id }, "could not store the outcome of a file run");
        return !signal.aborted;
      },
      signal,
    });
  }

  /** Ends requeued file runs of earlier services: no dispatcher executes them. */
  async #endAbandoned(): Promise<void> {
    const { store, clock } = this.#parts;
    for (const appNumber of await store.claims.backlog()) {
      const queued = await store.runs.list({ appNumber, state: "queued", limit: LOOK_RUNS });
      const abandoned = queued.filter(isFileRun).map((run) => abandonedRun(run, clock.now()));
      await store.claims.endQueued(abandoned.map((run) => ({ run, result: null })));
    }
  }

  async #remove(folder: string): Promise<void> {
    await removeTree(folder).catch((error: unknown) =>
      this.#parts.log.warn({ err: error, folder }, "could not remove the folder of a file run"),
    );
  }
}

async function requireFile(folder: string, fileName: string): Promise<void> {
  const found = await stat(path.join(folder, fileName)).catch(() => null);
  if (found?.isFile()) return;
  throw new AppError("upload_invalid", { message: `The archive does not contain ${fileName}.` });
}
