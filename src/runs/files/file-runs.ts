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
  /** The service's own interpreter. */
  readonly python: string;
  /** What files live behind; null for nothing. */
  readonly walls: AppWalls | null;
  /** What they are held to; null for nothing. */
  readonly limits: AppLimits | null;
  /** This process, among those that share the database. */
  readonly owner: string;
  /** Stores a run, or rejects; `end` is told if one of which nobody knew whether it is stored turns out to be. */
  readonly accept: (accepted: AcceptedRun, end: () => void) => Promise<void>;
  readonly reserve: Pick<StorageWatch, "refusal">;
  readonly context: FileContext;
};

/** What a file run takes from its app. */
export type FileContext = {
  /** Writes the files of a tar into a folder that is there and empty. Throws `upload_invalid` if it cannot. */
  unpack(tar: AsyncIterable<Buffer>, folder: string): Promise<void>;
  /** How long a file of the app may run. */
  timeLimitMs(app: App): number;
  /** The Python that the app asks for; null where any will do. */
  python(app: App): PythonWish | null;
  /** What a file of the app is held to. */
  limits(app: App): Limits;
  /** Which sockets it may use. */
  sockets(app: App): { readonly network: Network; readonly unixSockets: boolean };
  /** What the file finds in its environment, but for what names folders of this machine. */
  variables(app: App, runId: string): Promise<Record<string, string>>;
  /** The file printed a line. */
  onLine(app: App, runId: string, line: { readonly text: string; readonly stream: LogStream }): void;
};

export type FileToRun = FileRunRequest & {
  /** The folder of its packages; null when it has none. */
  readonly environment: string | null;
  /** What its log is to begin with. */
  readonly warnings: readonly string[];
  /**
   * Has the archive unpacked as it arrives, and resolves with the JSON for `--data`, or null for none.
   */
  readonly receive: (unpack: (tar: AsyncIterable<Buffer>) => Promise<void>) => Promise<string | null>;
};

/** Each is processes and a folder: more at once would take the machine from the apps. */
const MAX_AT_ONCE = 32;
/** Of one project: it leaves places to others. */
const MAX_OF_PROJECT = 16;
/** One variable of the environment may have 128 KiB on Linux, and what a file starts inherits the data as one. */
const MAX_DATA_BYTES = 128_000;
const LOOK_MS = 30_000;
const LOOK_RUNS = 1_000;
const RETRY_MS = 1_000;

/** A run whose file and folder are there. */
type ReadyRun = {
  readonly run: Run;
  readonly app: App;
  readonly file: FileToRun;
  readonly data: string | null;
  readonly folder: string;
};

/** File runs, of files that are sent, run once and gone: each has a folder of its own, a record, and lines in its app's log. */
export class FileRuns {
  readonly #parts: FileRunsParts;
  readonly #dir: string;
  readonly #ids = new UuidSource(RUN_AHEAD_MS);
  readonly #running = new Set<Promise<void>>();
  /** What ends each of those whose process is there, by the run's id. */
  readonly #cancels = new Map<string, AbortController>();
  readonly #stopping = new AbortController();
  /** With those that are still arriving. */
  #count = 0;
  /** The same by project. */
  readonly #countOf = new Map<string, number>();
  #isClosed = false;
  #looking: Timer | null = null;

  constructor(parts: FileRunsParts) {
    this.#parts = parts;
    this.#dir = path.join(parts.dataDir, "once");
  }

  /** Whether the store has runs as ours that have not ended. */
  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /** Clears up what a service that is gone has left. */
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
    const ofProject = this.#countOf.get(app.projectId) ?? 0;
    if (this.#count >= MAX_AT_ONCE || ofProject >= MAX_OF_PROJECT) {
      const whose =
        ofProject >= MAX_OF_PROJECT ? `${ofProject} file runs of this project` : `${this.#count} file runs`;
      throw new AppError("queue_full", { message: `${whose} are already in progress; try again shortly.` });
    }
    const { clock, context } = this.#parts;
    const createdAt = clock.now();
    const id = this.#ids.next(createdAt);
    const folder = path.join(this.#dir, id);
    this.#add(app, 1);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const data = await file.receive((tar) => context.unpack(this.#whileRoom(tar), folder));
      if (data !== null && Buffer.byteLength(data) > MAX_DATA_BYTES) {
        throw new AppError("body_too_large", {
          message: `The data is larger than ${MAX_DATA_BYTES} bytes.`,
        });
      }
      await requireFile(folder, file.fileName);
      const run = startedRun(file, { id, appNumber: app.number, createdAt, startedAt: clock.now() });
      await this.#accept(run);
      this.#track(this.#run({ run, app, file, data, folder }).finally(() => this.#add(app, -1)));
      return id;
    } catch (error) {
      this.#add(app, -1);
      await this.#remove(folder);
      throw error;
    }
  }

  #add({ projectId }: App, more: 1 | -1): void {
    this.#count += more;
    const count = (this.#countOf.get(projectId) ?? 0) + more;
    if (count > 0) this.#countOf.set(projectId, count);
    else this.#countOf.delete(projectId);
  }

  /** Ends one with all it has started; false when none of that id is under way here. */
  cancel(runId: string): boolean {
    const cancel = this.#cancels.get(runId);
    cancel?.abort();
    return cancel !== undefined;
  }

  /** No new ones; resolves when those under way have ended. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#running);
  }

  /** Ends those under way, and resolves when that is written down. */
  async stop(): Promise<void> {
    this.#looking?.cancel();
    this.#stopping.abort();
    await this.drain();
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  /** What arrives, while the disk is to take it. */
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
    // By then its folder is gone, and whoever sent it was told to look for it.
    const end = () => this.#track(this.#keepEnd(endedRun(run, "interrupted", clock.now())));
    await accept({ run, payload, owner }, end);
  }

  /** To its end, written down; never rejects. */
  async #run(ready: ReadyRun): Promise<void> {
    const { run, folder } = ready;
    const cancel = new AbortController();
    this.#cancels.set(run.id, cancel);
    const end = await this.#execute(ready, cancel.signal).catch((error: unknown): FileRunEnd => {
      this.#parts.log.error({ err: error, runId: run.id }, "could not carry out a file run");
      return "interrupted";
    });
    // From here on it is too late to cancel it.
    this.#cancels.delete(run.id);
    await this.#remove(folder);
    await this.#keepEnd(endedRun(run, end, this.#parts.clock.now()));
  }

  async #execute({ run, app, file, data, folder }: ReadyRun, cancelled: AbortSignal): Promise<FileRunEnd> {
    const { python: own, walls, limits, context, clock, storage: folders, dataDir } = this.#parts;
    const timeLimitMs = context.timeLimitMs(app);
    const { environment } = file;
    const wish = context.python(app);
    const python = await appPython(environment, wish, { own, dataDir });
    if (python === null) return { code: 1, detail: missingPython(wish?.version), lastWords: "" };
    const storage = folders.make(app.projectId);
    const variables = await context.variables(app, run.id);
    const user = folders.userOf(app.projectId);
    const scratch = walls && makeScratch(dataDir, user);
    // It was unpacked by the service, and nothing of it has run.
    if (user !== null) await chownTree(folder, user);
    const late = new AbortController();
    const timer = clock.after(timeLimitMs, () => late.abort());
    const kept = keptFile(
      { file, data, python, variables, folder, storage, scratch, user },
      { walls, sockets: context.sockets(app) },
    );
    const held = limits && {
      host: limits,
      limits: context.limits(app),
      folders: { scratch: scratch === null ? [] : [scratch, folder], storage },
    };
    const onLine = (text: string, stream: LogStream) => context.onLine(app, run.id, { text, stream });
    for (const warning of file.warnings) onLine(`[millrace] warning: ${warning}`, "stderr");
    try {
      const signal = AbortSignal.any([late.signal, cancelled, this.#stopping.signal]);
      const end = await runProgram(own, { ...kept, held, onLine }, signal, clock);
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

  /** What has happened must not be lost because the storage is away for a while. */
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

  /** Of apps that serve nothing: the dispatcher has nowhere to take those to, and they would wait for ever. */
  async #endAbandoned(): Promise<void> {
    const { store, clock } = this.#parts;
    for (const appNumber of await store.claims.backlog()) {
      const queued = await store.runs.list({ appNumber, state: "queued", limit: LOOK_RUNS });
      for (const run of queued.filter(isFileRun)) {
        const { id } = run;
        await store.claims.endQueued({ appNumber, id, run: abandonedRun(run, clock.now()), result: null });
      }
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
