import { Bell } from "../kit/bell.ts";
import type { Clock } from "../kit/clock.ts";
import { within } from "../kit/within.ts";

/** A request, as far as it matters here. */
export type OpenExchange = {
  readonly request: { readonly complete: boolean };
  /** Among the open ones. */
  index: number;
  /** Whether a gateway that is closing waits for it. */
  isAwaited: boolean;
};

/** The requests of a gateway that have no answer yet. */
export class OpenExchanges {
  /** In no order, each with its place: a map or a set costs the garbage collector more (`call-table.ts`). */
  readonly #open: OpenExchange[] = [];
  readonly #settled = new Bell();
  /** How many are waited for and still open: an answer must not cost a look at all the others. */
  #awaited = 0;

  add(exchange: OpenExchange): void {
    exchange.index = this.#open.push(exchange) - 1;
  }

  /** It has its answer, or nobody waits for one any more. */
  remove(exchange: OpenExchange): void {
    const last = this.#open.pop();
    if (last && last !== exchange) {
      this.#open[exchange.index] = last;
      last.index = exchange.index;
    }
    if (!exchange.isAwaited) return;
    exchange.isAwaited = false;
    this.#awaited -= 1;
    if (this.#awaited === 0) this.#settled.ring();
  }

  /** Those that have arrived whole: their callers have nothing left to do but wait. */
  get waiting(): number {
    return this.#open.filter(({ request }) => request.complete).length;
  }

  /** Resolves with how many are left without an answer when all have one, or the time is over. */
  async settle(patienceMs: number, clock: Clock): Promise<number> {
    const none = async (): Promise<void> => {
      // Again when those have their answers: other requests may have arrived whole meanwhile.
      while (this.#awaitAll() > 0) await this.#settled.wait();
    };
    await within(patienceMs, none(), clock);
    return this.waiting;
  }

  /** How many have arrived whole; each of them is waited for from now on. */
  #awaitAll(): number {
    for (const exchange of this.#open) {
      if (exchange.isAwaited || !exchange.request.complete) continue;
      exchange.isAwaited = true;
      this.#awaited += 1;
    }
    return this.#awaited;
  }
}
