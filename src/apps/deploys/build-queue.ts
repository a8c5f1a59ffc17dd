import type { App } from "../../model/app.ts";

type Wanting = Pick<App, "number" | "projectId">;
type Waiting = { readonly app: Wanting; readonly begin: () => void };

/** How many builds may run at once. */
export type BuildShares = { readonly total: number; readonly perProject: number };

/** Limits builds at once, and to one for each app. The project with the fewest running builds is next: none starves. */
export class BuildQueue {
  readonly #shares: BuildShares;
  /** The apps that are being built, with their projects. */
  readonly #busy = new Map<number, string>();
  #waiting: Waiting[] = [];

  constructor(shares: BuildShares) {
    this.#shares = shares;
  }

  /** Whether a build of that app would have to wait. */
  isFull({ number, projectId }: Wanting): boolean {
    const { total, perProject } = this.#shares;
    return this.#busy.size >= total || this.#busy.has(number) || this.#countOf(projectId) >= perProject;
  }

  /** Does the work when its turn has come; rejects with the signal's reason if that aborts before. */
  async run<T>(app: Wanting, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(app, signal);
    try {
      return await work();
    } finally {
      this.#busy.delete(app.number);
      this.#beginNext();
    }
  }

  async #turn(app: Wanting, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { app, begin: resolve };
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", leave);
    this.#waiting.push(waiting);
    this.#beginNext();
    await promise.finally(() => signal.removeEventListener("abort", leave));
  }

  #beginNext(): void {
    const begun = this.#next();
    if (!begun) return;
    this.#busy.set(begun.app.number, begun.app.projectId);
    this.#waiting = this.#waiting.filter((other) => other !== begun);
    begun.begin();
    this.#beginNext();
  }

  /** The longest waiting build of the project with the fewest running ones, unless its app is busy. */
  #next(): Waiting | null {
    let next: Waiting | null = null;
    for (const waiting of this.#waiting) {
      if (this.isFull(waiting.app)) continue;
      if (!next || this.#countOf(waiting.app.projectId) < this.#countOf(next.app.projectId)) next = waiting;
    }
    return next;
  }

  #countOf(projectId: string): number {
    return [...this.#busy.values()].filter((project) => project === projectId).length;
  }
}
