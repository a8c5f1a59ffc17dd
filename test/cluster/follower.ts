import { setTimeout as pause } from "node:timers/promises";
import type { Roll } from "../support/dice.ts";
import type { Cluster } from "../support/cluster/cluster.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import { StreamReader } from "../support/stream-reader.ts";
import type { Balancer } from "./balancer.ts";

/** A run whose event number k is `n:k-1`, in every attempt. */
export type Followed = {
  readonly app: string;
  readonly id: string;
  readonly n: number;
  readonly count: number;
};

type Parts = { readonly cluster: Cluster; readonly balancer: Balancer; readonly roll: Roll };
type RunEnd = { readonly status: string; readonly error?: { readonly code?: string } | null };

/** How a reader's time with a run ended: with the run's end, or the service does not know the run. */
export type FollowEnd = { readonly entry: ClusterNode; readonly record: RunEnd | null; readonly got: number };

const AGAIN_MS = 50;
/** The most that a reader takes before it leaves and comes again, by chance. */
const SITTING = 12;

/**
 * A reader of a run's events that comes again, through whichever node, with the number of the last event that it has,
 * until it is told the end. `wrong` has what contradicts what it was told before: an event that is missing, comes twice or
 * is another one, and an end that is told too early.
 */
export class Follower {
  readonly wrong: string[] = [];
  readonly #run: Followed;
  readonly #parts: Parts;
  #after = 0;
  #isTruncated = false;
  /** The number and the record of the `end`. */
  #end: { readonly id: string; readonly record: RunEnd } | null = null;

  constructor(run: Followed, parts: Parts, after = 0) {
    this.#run = run;
    this.#parts = parts;
    this.#after = after;
  }

  async follow(): Promise<FollowEnd> {
    for (;;) {
      for (const entry of this.#parts.balancer.order()) {
        const status = await this.#sit(entry);
        if (this.#end) return await this.#finish(entry, this.#end);
        if (status === 404) return { entry, record: null, got: this.#after };
        if (status === 204) this.#blame("204 before it was told the end");
      }
      await pause(AGAIN_MS);
    }
  }

  /** One connection, until it ends or the reader has had enough; the answer's status. */
  async #sit(entry: ClusterNode, last = String(this.#after)): Promise<number | null> {
    const { cluster, roll } = this.#parts;
    const { app, id } = this.#run;
    const reader = new StreamReader({
      url: cluster.url(entry, app, `runs/${id}/events`),
      method: "GET",
      token: cluster.token,
      body: "",
      headers: { connection: "close", ...(last !== "0" && { "last-event-id": last }) },
    });
    const enough = Math.ceil(roll(2 * SITTING));
    await (enough > SITTING ? reader.ended() : Promise.race([reader.ended(), reader.hasMessages(enough)]));
    reader.leave();
    for (const message of reader.messages) this.#take(message);
    return reader.head?.status ?? null;
  }

  #take({ id, event, data }: StreamReader["messages"][number]): void {
    const { n, count } = this.#run;
    if (this.#end) this.#blame(`${event ?? "an event"} after the end`);
    if (event === "error") return;
    if (event === "truncated") {
      this.#isTruncated = true;
      const { firstEvent } = JSON.parse(data) as { firstEvent: number | null };
      if (firstEvent !== null) this.#after = firstEvent - 1;
      return;
    }
    if (event === "end") {
      this.#end = { id: id ?? "", record: JSON.parse(data) as RunEnd };
      return;
    }
    const number = Number(id);
    if (number !== this.#after + 1) this.#blame(`event ${id} after ${this.#after}`);
    if (data !== `${n}:${number - 1}` || number > count) this.#blame(`event ${id} is ${data}`);
    this.#after = number;
  }

  /** Judges the end, and asks once more with its number: who has had it gets 204. */
  async #finish(entry: ClusterNode, { id, record }: { id: string; record: RunEnd }): Promise<FollowEnd> {
    const { count } = this.#run;
    const got = this.#after;
    if (record.status === "success" && (got !== count || this.#isTruncated))
      this.#blame(`success after ${got} of ${count} events${this.#isTruncated ? ", truncated" : ""}`);
    if (Number(id) <= got) this.#blame(`the end has the number ${id} after event ${got}`);
    this.#end = null;
    for (let status: number | null = null; status !== 204;) {
      for (const each of this.#parts.balancer.order()) {
        status = await this.#sit(each, id);
        if (status === 204) break;
        if (this.#end) this.#blame(`the end twice: the second time to one that has it`);
        if (this.#end || status === 404) status = 204;
        if (status === 204) break;
      }
      if (status !== 204) await pause(AGAIN_MS);
    }
    return { entry, record, got };
  }

  #blame(what: string): void {
    const { app, id } = this.#run;
    this.wrong.push(`the reader of ${id} of ${app}: ${what}`);
  }
}
