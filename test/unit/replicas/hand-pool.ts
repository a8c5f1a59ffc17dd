import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import type { ScalingConfig } from "../../../src/model/app-config.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call } from "../../../src/replicas/call.ts";
import type { Lane } from "../../../src/replicas/slots/capacity.ts";
import { Pool } from "../../../src/replicas/pool.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { handHome, type HandReplica, HandSeats } from "./hand-replica.ts";
import { sampleScaling } from "./sample-scaling.ts";

/** A call that a test made; `outcome` is null until its reader knows. */
export type HandCall = { readonly call: Call; outcome: Outcome | null };

/** A pool whose time and whose replicas a test moves. */
export class PoolByHand {
  readonly clock: HandClock;
  readonly seats: HandSeats;
  readonly pool: Pool;
  /** How replicas ended, in order. */
  readonly exits: string[] = [];
  /** Notified for every call that ends. */
  readonly #ends = new Condition();

  private constructor(clock: HandClock, seats: HandSeats, makePool: (exits: string[]) => Pool) {
    this.clock = clock;
    this.seats = seats;
    this.pool = makePool(this.exits);
  }

  /** One replica at most, unless told otherwise. */
  static async open(changes: Partial<ScalingConfig> = {}): Promise<PoolByHand> {
    const clock = new HandClock();
    const home = await handHome(async () => {
      let isClosed = false;
      void site.pool.close({ kind: "refused", code: "draining" }).then(() => (isClosed = true));
      await until("the pool is closed", () => {
        clock.advance(1_000); // The last words of a replica that never called are waited for in vain.
        return isClosed;
      });
    });
    const seats = new HandSeats(home);
    const { config } = readAppConfig({ host: { cpuCount: 2 } });
    const scaling = sampleScaling({ maxReplicas: 1, ...changes });
    const site = new PoolByHand(clock, seats, (exits) => {
      const events = {
        onLog: () => {},
        onFunctions: () => {},
        onReplicaGone: (_: string, { detail }: { detail: string }) => void exits.push(detail),
        onError: (error: unknown) => {
          throw error;
        },
      };
      return new Pool({ ...config, scaling }, { seats, home, clock, events });
    });
    return site;
  }

  /** The replica that was started at that place; -1 is the latest. */
  replica(place: number): HandReplica {
    return this.seats.replica(place);
  }

  /** Has a replica call home; so many are ready then. */
  async ready(place: number, count = 1): Promise<HandReplica> {
    await this.replica(place).hello();
    await until(`${count} replicas are ready`, () => this.pool.readyCount === count);
    return this.replica(place);
  }

  submit(lane: Lane = "caller"): HandCall {
    const onEnd = (outcome: Outcome): void => {
      made.outcome = outcome;
      this.#ends.notify();
    };
    const call = new Call(randomUUID(), "run", Buffer.from("{}"), { onEnd }, lane);
    const made: HandCall = { call, outcome: null };
    this.pool.slots.submit(call);
    return made;
  }

  /** So many calls, in order. */
  submitAll(count: number, lane: Lane = "caller"): HandCall[] {
    return Array.from({ length: count }, () => this.submit(lane));
  }

  /** Waits until a call's reader knows its end. */
  async ended(made: HandCall): Promise<Outcome> {
    await until("the call has ended", () => made.outcome !== null, this.#ends);
    return made.outcome as Outcome;
  }

  /** Has a replica answer a call that it holds. */
  async answer(replica: HandReplica, made: HandCall, runMs?: number): Promise<void> {
    await replica.hears("CALL", made.call);
    replica.returns(made.call, runMs);
    expect(await this.ended(made)).toMatchObject({ kind: "returned" });
  }

  /** Teaches the pool what a call of this app takes: as many samples as it asks for. */
  async learnPace(replica: HandReplica, runMs: number): Promise<void> {
    for (let sample = 0; sample < 64; sample++) {
      const made = this.submit();
      replica.returns(made.call, runMs);
      await this.ended(made);
    }
  }
}
