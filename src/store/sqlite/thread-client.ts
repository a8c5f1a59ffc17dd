// oxlint-disable unicorn/require-post-message-target-origin -- these are threads, not windows
import type { Worker } from "node:worker_threads";
import { AppError } from "../../model/errors.ts";
import { endWorker, startWorker } from "./database-worker.ts";
import type { FileIdentity } from "./connection.ts";
import { fromFailure, type FromThread, type Reply, type ThreadData, type ToThread } from "./messages.ts";

type Pending = { readonly resolve: (result: unknown) => void; readonly reject: (error: unknown) => void };

/** Buffers of the input to be transferred, and when the call times out, by `threadsMs`. */
type CallOptions = { readonly moved?: readonly ArrayBuffer[]; readonly deadlineMs?: number };

/**
 * Calls a database thread. If it dies, pending calls reject with `storage_unavailable`, or `in_doubt` if they write,
 * and the next call starts a new thread.
 */
export class ThreadClient {
  readonly #script: URL;
  #data: ThreadData;
  readonly #onDamage: (problem: string) => void;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | null;
  /** Whether the thread knows which database to open. */
  #isTold = false;
  #opening = Promise.withResolvers<void>();
  #closing: Promise<void> | null = null;
  #lastId = 0;

  /** Starts the thread, which loads its code at once; `open` opens the database. `onDamage` reports a damaged file. */
  constructor(script: URL, data: ThreadData, onDamage: (problem: string) => void = () => {}) {
    this.#script = script;
    this.#data = data;
    this.#onDamage = onDamage;
    this.#worker = this.#start();
  }

  /** Resolves when the thread has its database open; rejects with the reason it could not. */
  async open(): Promise<void> {
    this.#told();
    await this.#opening.promise;
  }

  /** From now on, a thread that replaces this one opens only these files. */
  pin(identity: FileIdentity): void {
    this.#data = { ...this.#data, identity };
  }

  async call(name: string, packed: unknown, { moved = [], deadlineMs }: CallOptions = {}): Promise<unknown> {
    const id = ++this.#lastId;
    this.#told().postMessage({ id, name, packed, deadlineMs } satisfies ToThread, moved);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    return await promise;
  }

  /** Ends the thread after it has finished all calls. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  /** Ends the thread at once. */
  async terminate(): Promise<void> {
    await this.#worker?.terminate();
  }

  async #close(): Promise<void> {
    if (!this.#worker) return;
    const worker = this.#told();
    const { promise, resolve } = Promise.withResolvers<void>();
    worker.once("exit", resolve);
    worker.on("message", (message: FromThread) => {
      if (message === "closed") resolve();
    });
    worker.postMessage("close" satisfies ToThread);
    await promise;
    if (this.#worker === null) return;
    this.#worker = null;
    for (const event of ["message", "error", "exit"]) worker.removeAllListeners(event);
    await endWorker(worker);
  }

  /** Tells the thread which database to open, once. */
  #told(): Worker {
    const worker = (this.#worker ??= this.#start());
    if (!this.#isTold) worker.postMessage(this.#data satisfies ToThread);
    this.#isTold = true;
    return worker;
  }

  #start(): Worker {
    const worker = startWorker(this.#script);
    this.#opening = Promise.withResolvers<void>();
    // Only the first opening is awaited; if a later one fails, its calls fail.
    this.#opening.promise.catch(() => {});
    let failure = new Error("the database thread ended");
    worker.on("message", (message: FromThread) => {
      if (message === "ready") this.#opening.resolve();
      else if (message !== "closed") this.#settle(message);
    });
    worker.on("error", (error: Error) => (failure = error));
    worker.on("exit", () => {
      this.#worker = null;
      this.#isTold = false;
      this.#opening.reject(failure);
      this.#rejectAll(failure);
    });
    return worker;
  }

  #settle(replies: readonly Reply[]): void {
    for (const reply of replies) {
      const pending = this.#pending.get(reply.id);
      this.#pending.delete(reply.id);
      if ("result" in reply) pending?.resolve(reply.result);
      else {
        if ("damage" in reply.failure) this.#onDamage(reply.failure.damage);
        pending?.reject(fromFailure(reply.failure));
      }
    }
  }

  #rejectAll(cause: Error): void {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    const code = this.#data.mode === "write" ? "in_doubt" : "storage_unavailable";
    for (const { reject } of pending) reject(new AppError(code, {}, cause));
  }
}
