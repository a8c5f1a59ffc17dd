import { realpathSync } from "node:fs";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { z } from "zod";
import type { StorageFolders } from "../../host/storage/folders.ts";
import { startOf } from "../../host/interpreter.ts";
import { NO_NETWORK } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import type { Clock } from "../../kit/clock.ts";
import { FairLane } from "../../kit/fair-lane.ts";
import { AppError } from "../../model/errors.ts";
import { startAgent } from "../local/agent.ts";
import type { Agent } from "../local/agent.ts";
import { readLine } from "./read-line.ts";

export type HelperParts = {
  /** The host's interpreter. */
  readonly python: string;
  readonly dataDir: string;
  readonly folders: StorageFolders;
  readonly clock: Clock;
};

/** What a helper does; the fields are those of `python/millrace_storage/start.py`. */
export type StorageOrder = { readonly operation: string } & Readonly<Record<string, unknown>>;

/** What an operation gives after its answer. */
export type HelperStream = {
  readonly rest: Readable;
  /** Breaks it off. */
  readonly end: () => void;
};

/** A list of as many entries as there may be, each with a long name. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Each is two processes. */
const LIMITS = { total: 32, perKey: 8, waiting: 64, waitMs: 30_000 };

const ANSWER = z.union([
  z.strictObject({ done: z.unknown() }),
  z.strictObject({ error: z.string().max(40) }),
  z.strictObject({ refused: z.string().max(200) }),
]);

/** What the caller has to be told about a path. */
export class RefusedPath extends Error {}

/**
 * Works on the storage of projects that have users of their own: each operation is a process of the project's user
 * behind the walls of its apps. The service itself touches nothing in there, so nothing that an app puts there makes
 * root follow a link, wait for a pipe or open a device.
 */
export class StorageHelper {
  readonly #parts: HelperParts;
  readonly #lane: FairLane;
  readonly #running = new Map<Agent, Promise<void>>();

  constructor(parts: HelperParts) {
    this.#parts = parts;
    this.#lane = new FairLane(LIMITS, parts.clock);
  }

  /**
   * Has an operation done, and resolves with what it says; `readable` is a folder that it may read. Rejects with the
   * file system's error, or `RefusedPath`. What nobody has to wait for goes on after that.
   */
  async ask(projectId: string, order: StorageOrder, readable?: string): Promise<unknown> {
    const { kept, done } = await this.#begin(projectId, order, readable);
    kept.close();
    return done;
  }

  /** The same for an operation that gives bytes. */
  async stream(projectId: string, order: StorageOrder): Promise<HelperStream> {
    const { kept } = await this.#begin(projectId, order);
    return { rest: kept.stdout, end: () => kept.end() };
  }

  /** Breaks off what is under way: what is left to remove is removed by a later operation. */
  async stop(): Promise<void> {
    for (const kept of this.#running.keys()) kept.end();
    await Promise.all(this.#running.values());
  }

  async #begin(projectId: string, order: StorageOrder, readable?: string) {
    const leave = await this.#lane.enter(projectId);
    if (leave === null) throw new AppError("overloaded");
    const kept = this.#start(projectId, order, leave, readable);
    const complaint = text(kept.stderr).catch(() => "");
    // As long as somebody listens, Node does not throw away what is unread when the process ends.
    kept.stdout.on("readable", () => {});
    const line = await readLine(kept.stdout, MAX_ANSWER_BYTES);
    if (line === null) {
      kept.end();
      throw new Error(`the helper for storage gave no answer: ${(await complaint).trim().slice(-1_000)}`);
    }
    const answer = ANSWER.parse(JSON.parse(line));
    if ("done" in answer) return { kept, done: answer.done };
    kept.close();
    if ("refused" in answer) throw new RefusedPath(answer.refused);
    throw Object.assign(new Error(`storage of ${projectId}: ${answer.error}`), { code: answer.error });
  }

  #start(projectId: string, order: StorageOrder, leave: () => void, readable?: string): Agent {
    const { python, dataDir, folders, clock } = this.#parts;
    let scratch: string | null = null;
    const clear = async (): Promise<void> => {
      leave();
      if (scratch !== null) await removeScratch(scratch);
    };
    try {
      const user = folders.userOf(projectId);
      const storage = folders.make(projectId);
      scratch = makeScratch(dataDir, user);
      const reach = {
        folders: { bundle: readable ?? scratch, environment: null, storage },
        scratch,
        python: { interpreter: null, names: null },
        reads: [],
        writes: [],
        network: NO_NETWORK,
        unixSockets: false,
        memoryBytes: null,
      };
      const plan = {
        program: python,
        args: startOf("millrace_storage.start"),
        cwd: reach.folders.bundle,
        env: {},
        order: JSON.stringify({ ...order, root: realpathSync(storage) }),
        home: "",
        input: null,
        walls: { host: { rung: "uid", dataDir, user, reads: [] } as const, reach },
        watched: null,
        server: null,
      };
      const kept = startAgent(python, plan, clock);
      const over = kept.exited
        .catch(() => {}) // Told by an answer that does not come.
        .then(clear)
        .then(() => void this.#running.delete(kept));
      this.#running.set(kept, over);
      return kept;
    } catch (error) {
      void clear();
      throw error;
    }
  }
}
