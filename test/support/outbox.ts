import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { onTestFinished } from "vitest";
import { AddressRanges } from "../../src/kit/address-ranges.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { uuidv7 } from "../../src/kit/ids.ts";
import { createLog } from "../../src/kit/log.ts";
import { Seal } from "../../src/kit/seal.ts";
import type { Delivery, NewDelivery } from "../../src/model/delivery.ts";
import { Deliverer } from "../../src/runs/webhooks/deliverer.ts";
import type { DelivererOptions } from "../../src/runs/webhooks/deliverer.ts";
import { HOST_LIMITS } from "../../src/runs/webhooks/hosts.ts";
import { GAPS_MS } from "../../src/runs/webhooks/schedule.ts";
import { SigningSecrets } from "../../src/runs/webhooks/signing-secrets.ts";
import { openStore } from "../../src/store/store.ts";
import type { Store } from "../../src/store/store.ts";
import { packEnded } from "../../src/store/runs.ts";
import type { TestDatabase } from "./databases.ts";
import { sampleEnd, sampleRun } from "./sample-run.ts";
import { until } from "./until.ts";

/** An hour in a second. */
const SCALE = 3_600;
export const SCALED_GAPS_MS = GAPS_MS.map((gapMs) => gapMs / SCALE);
const SCALED_LIMITS = {
  ...HOST_LIMITS,
  restMs: HOST_LIMITS.restMs / SCALE,
  maxRestMs: HOST_LIMITS.maxRestMs / SCALE,
};
const PROJECT = "p-webhooks";

/** A real store with one app whose runs have webhooks, and deliverers that serve it. */
export class Outbox {
  readonly store: Store;
  readonly seal = new Seal(randomBytes(32));
  readonly secrets: SigningSecrets;
  readonly projectId = PROJECT;
  readonly appNumber: number;
  /** What deliverers logged. */
  logged = "";
  #deliverers = 0;

  private constructor(store: Store, appNumber: number) {
    this.store = store;
    this.appNumber = appNumber;
    this.secrets = new SigningSecrets({ store, seal: this.seal, clock: systemClock });
  }

  static async open(database: TestDatabase): Promise<Outbox> {
    const store = await openStore(database);
    onTestFinished(() => store.close());
    const createdAt = Date.now();
    await store.projects.insert({ id: PROJECT, name: "test", createdAt });
    const app = await store.apps.insertOrFind({ projectId: PROJECT, name: "hello", createdAt });
    return new Outbox(store, app.number);
  }

  /** Ended runs, each with a response of its own on its way. */
  async add(url: string, count = 1, fields: Partial<NewDelivery> = {}): Promise<NewDelivery[]> {
    const { appNumber } = this;
    const createdAt = fields.createdAt ?? Date.now();
    const deliveries = Array.from({ length: count }, (_, place): NewDelivery => {
      const id = uuidv7(createdAt);
      const body = Buffer.from(`{"run_id":"${id}","result":"č 😀 ${place}","run_time_ms":1.25}`);
      const contentType = "application/json";
      return { id, appNumber, url, contentType, runStatus: 200, body, sealedSecret: null, nextAt: createdAt, createdAt, ...fields }; // prettier-ignore
    });
    await this.store.runs.insertFinished([
      packEnded(
        deliveries.map((delivery) =>
          sampleEnd(
            sampleRun({ id: delivery.id, appNumber, webhookEndpoint: url, webhookState: "pending" }),
            {
              delivery,
            },
          ),
        ),
      ),
    ]);
    return deliveries;
  }

  /** A deliverer at work, with time scaled down; it is stopped when the test is over. */
  deliverer(options: Partial<DelivererOptions> = {}): Deliverer {
    const { store, seal, secrets } = this;
    const stream = new Writable({
      write: (line, _, done) => {
        this.logged += String(line);
        done();
      },
    });
    const deliverer = new Deliverer({
      store,
      seal,
      secrets,
      clock: systemClock,
      log: createLog("info", stream),
      allow: new AddressRanges(["127.0.0.0/8"]),
      owner: `service-${(this.#deliverers += 1)}`,
      gapsMs: SCALED_GAPS_MS,
      hostLimits: SCALED_LIMITS,
      stopMs: 100,
      ...options,
    });
    deliverer.start();
    onTestFinished(() => deliverer.stop());
    return deliverer;
  }

  async find(id: string): Promise<Delivery> {
    const delivery = await this.store.deliveries.find({ projectId: PROJECT, id });
    if (!delivery) throw new Error(`no delivery ${id}`);
    return delivery;
  }

  /** Waits until a delivery is as described. */
  async became(id: string, what: string, holds: (delivery: Delivery) => boolean): Promise<Delivery> {
    await until(`delivery ${id} ${what}`, async () => holds(await this.find(id)));
    return await this.find(id);
  }

  /** Waits until so many deliveries have that state. */
  async count(state: Delivery["state"], count: number): Promise<void> {
    const holds = async () => {
      const found = await this.store.deliveries.list({ projectId: PROJECT, state, limit: count + 1 });
      return found.length === count;
    };
    await until(`${count} deliveries ${state}`, holds);
  }
}
