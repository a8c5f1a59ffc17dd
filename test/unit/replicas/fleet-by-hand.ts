import { readAppConfig } from "../../../src/config/app-config.ts";
import type { ScalingConfig } from "../../../src/model/app-config.ts";
import type { Call } from "../../../src/replicas/call.ts";
import type { Exit, InitFailure } from "../../../src/engines/engine.ts";
import { Fleet } from "../../../src/replicas/fleet.ts";
import { newFleetCounts } from "../../../src/replicas/fleet-events.ts";
import { functionReplicas, type Replica } from "../../../src/replicas/replica.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { HandSeats, handHome } from "./hand-replica.ts";
import { sampleScaling } from "./sample-scaling.ts";

export const INIT_SECONDS = 60;

/** A fleet whose load, time and replicas a test moves. */
export class FleetByHand {
  readonly clock = new HandClock();
  readonly counts = newFleetCounts();
  readonly failures: InitFailure[] = [];
  readonly exits: string[] = [];
  /** Why each replica that has ended could not start; null where it did, or where nothing is known. */
  readonly told: (string | null)[] = [];
  demand = { calls: 0, arrivals: 0 };
  readonly seats: HandSeats;
  readonly fleet: Fleet<Call, Replica>;

  private constructor(
    home: ConstructorParameters<typeof HandSeats>[0],
    scaling: ScalingConfig,
    isSingle: boolean,
  ) {
    this.seats = new HandSeats(home);
    const { config } = readAppConfig({ host: { cpuCount: 2 } });
    const deployment = { ...config.deployment, deploymentInitializationTimeoutSeconds: INIT_SECONDS };
    const { clock, counts, seats } = this;
    const events = {
      demand: () => this.demand,
      onReady: () => {},
      onOutcome: () => {},
      onReturned: () => {},
      onAwake: () => {},
      onInitFailure: (failure: InitFailure) => void this.failures.push(failure),
      onReplicaGone: (_: string, { detail, initFailure }: Exit) => {
        this.exits.push(detail);
        this.told.push(initFailure?.message ?? null);
      },
      onLog: () => {},
      onError: (error: unknown) => {
        throw error;
      },
    };
    const functions = functionReplicas({ ...config, deployment, scaling }, { seats, home, clock });
    const single: typeof functions = {
      ...functions,
      mayBeSingle: true,
      open: (id, told) => {
        const onReady: typeof told.onReady = (signatures) => {
          told.onSingle();
          told.onReady(signatures);
        };
        return functions.open(id, { ...told, onReady });
      },
    };
    this.fleet = new Fleet<Call, Replica>(scaling, {
      source: isSingle ? single : functions,
      clock,
      counts,
      events,
      allowance: config.hardware,
    });
    this.fleet.scale();
  }

  /** `isSingle`: its first replica tells that there can be no other beside it. */
  static async open(changes: Partial<ScalingConfig> = {}, isSingle = false): Promise<FleetByHand> {
    const home = await handHome(async () => {
      let isClosed = false;
      void site.fleet.close().then(() => (isClosed = true));
      await until("the fleet is closed", () => {
        site.clock.advance(1_000); // The last words of a replica that never called are waited for in vain.
        return isClosed;
      });
    });
    const site: FleetByHand = new FleetByHand(home, sampleScaling({ maxReplicas: 8, ...changes }), isSingle);
    return site;
  }

  get started(): number {
    return this.seats.started.length;
  }

  /** So many calls are there, in replicas' hands or waiting. */
  calls(calls: number): void {
    this.demand = { ...this.demand, calls };
    this.fleet.scale();
  }

  /** All that were started since the last time call home. */
  async allReady(count: number): Promise<void> {
    for (const replica of this.seats.started.slice(-count)) await replica.hello();
    await until("they are ready", () => this.fleet.ready.length >= count);
  }

  /** All that are ready have been so for a minute. */
  settle(): void {
    for (const replica of this.fleet.ready) replica.readyAt -= 60_000;
  }

  /** The place of the latest, of so many, is about to end: another starts, and that one goes when it is ready. */
  async replaced(count: number): Promise<void> {
    this.seats.replica(count - 1).leave();
    await until("another is started", () => this.started === count + 1);
    await this.seats.replica(count).hello();
    await this.seats.replica(count - 1).hears("STOP");
  }

  /** The latest replica ends of its own accord while it imports the app. */
  async dies(): Promise<void> {
    const before = this.exits.length;
    await this.seats.replica(-1).callHome();
    this.seats.replica(-1).exit("exit code 1");
    await until("it is gone", () => this.exits.length > before);
  }
}
