import * as z from "zod/mini";
import { backoffMs } from "../../kit/retry.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { LineCutter } from "../../kit/line-cutter.ts";
import { ApiError, type KubernetesApi, statusWords } from "./api.ts";

type Watched = {
  readonly api: KubernetesApi;
  readonly clock: Clock;
  readonly path: string;
  readonly labelSelector: string;
};

/** Events of a watch, with objects as the API server sent them. */
type WatchEvents = {
  /** A list is requested. Objects that exist now and are missing from it are gone. */
  onListing(): void;
  /** A complete list: at the beginning, and whenever changes may have been missed. */
  onList(objects: readonly unknown[]): void;
  onChange(change: "ADDED" | "MODIFIED" | "DELETED", object: unknown): void;
  /** The watch broke, or could not start, and is retried. Null when it runs. */
  onTrouble(error: unknown): void;
};

const PAGE = "500";
/** Far more pods than a cluster has. */
const MAX_PAGES = 100;
/** The server ends a watch after that, so that connections spread over its replicas again. */
const WATCH_SECONDS = "290";
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
/** An object of Kubernetes has at most 1.5 MB, and some more as JSON. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;
const GONE = 410;

/** Follows all objects with a label: a list, then a watch. A broken watch continues, if need be after a new list. */
export class Watch {
  readonly #watched: Watched;
  readonly #events: WatchEvents;
  readonly #stopped = new AbortController();
  /** The last version that was seen; null if a list is needed. */
  #version: string | null = null;
  #failures = 0;
  readonly #running: Promise<void>;

  constructor(watched: Watched, events: WatchEvents) {
    this.#watched = watched;
    this.#events = events;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    const { clock } = this.#watched;
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#list();
        await this.#follow(this.#version);
      } catch (error) {
        if (signal.aborted) return;
        this.#failures += 1;
        if (error instanceof ApiError && error.status === GONE) this.#version = null;
        else this.#events.onTrouble(error);
      }
      // Also after a watch that the server ended: it may do that at once.
      await pause(clock, backoffMs(Math.max(1, this.#failures), FIRST_WAIT_MS, LONGEST_WAIT_MS), signal);
    }
  }

  async #list(): Promise<string> {
    const { api, path, labelSelector } = this.#watched;
    const { signal } = this.#stopped;
    this.#events.onListing();
    let objects: readonly unknown[] = [];
    let after = "";
    for (let pages = 0; pages < MAX_PAGES; pages += 1) {
      const query = { labelSelector, limit: PAGE, ...(after !== "" && { continue: after }) };
      const { data } = LIST.safeParse(await api.ask({ method: "GET", path, query, signal }));
      if (!data) throw new Error("the Kubernetes API sent no list");
      objects = objects.concat(data.items);
      after = data.metadata.continue ?? "";
      if (after !== "") continue;
      this.#events.onList(objects);
      return data.metadata.resourceVersion;
    }
    throw new Error("the Kubernetes API sends an endless list");
  }

  async #follow(version: string): Promise<void> {
    const { api, path, labelSelector } = this.#watched;
    const { signal } = this.#stopped;
    const since = { resourceVersion: version, timeoutSeconds: WATCH_SECONDS };
    const query = { watch: "1", labelSelector, allowWatchBookmarks: "true", ...since };
    const answer = await api.watch({ method: "GET", path, query, signal });
    this.#failures = 0;
    this.#events.onTrouble(null);
    try {
      const lines = new LineCutter({ maxBytes: MAX_LINE_BYTES }, (bytes, isPiece) => {
        if (isPiece) throw new Error("the Kubernetes API sent a line that is too long");
        if (bytes.length > 0) this.#take(bytes.toString("utf8"));
      });
      for await (const piece of answer as AsyncIterable<Buffer>) {
        lines.push(piece);
        lines.cut();
      }
    } finally {
      answer.destroy();
    }
  }

  #take(line: string): void {
    const { type, object } = JSON.parse(line) as { type?: unknown; object?: unknown };
    if (type === "ERROR") throw errorOf(object);
    if (type === "ADDED" || type === "MODIFIED" || type === "DELETED") this.#events.onChange(type, object);
    // Only afterwards: a change that was not processed is sent again.
    this.#version = OBJECT.safeParse(object).data?.metadata.resourceVersion ?? this.#version;
  }
}

const VERSION = z.string().check(z.maxLength(64));
const OBJECT = z.object({ metadata: z.object({ resourceVersion: VERSION }) });
const LIST = z.object({
  items: z.array(z.unknown()),
  metadata: z.object({ resourceVersion: VERSION, continue: z.optional(z.string()) }),
});

function errorOf(object: unknown): ApiError {
  const { code } = (object ?? {}) as { code?: unknown };
  return new ApiError(typeof code === "number" ? code : 500, statusWords(object, "the watch was ended"));
}
