import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { AddressRanges } from "../../src/kit/ip-addresses.ts";
import type { Clock } from "../../src/kit/clock.ts";
import { uuidv7 } from "./ids.ts";
import { createLog } from "../../src/kit/log.ts";
import { Seal } from "../../src/kit/seal.ts";
import type { Delivery, NewDelivery } from "../../src/model/delivery.ts";
import type { DelivererOptions } from "../../src/runs/webhooks/courier.ts";
import { Tracer } from "../../src/runs/traces/tracer.ts";
import { Deliverer } from "../../src/runs/webhooks/deliverer.ts";
import { SigningSecrets } from "../../src/runs/webhooks/signing-secrets.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { SkippingClock } from "./clocks.ts";
import { type DatabaseKind, testDatabases } from "./databases.ts";
import { insertForwarded } from "./forwarded-runs.ts";
import { sampleRun } from "./sample-run.ts";
import { until } from "./until.ts";

let projects = 0;

/** An app whose runs have webhooks, in a real store, and deliverers that serve it. */
export class Outbox {
  readonly store: Store;
  readonly seal = new Seal(randomBytes(32));
  readonly secrets: SigningSecrets;
  readonly projectId: string;
  readonly appNumber: number;
  /** Its deliverers' time. */
  readonly clock = new SkippingClock();
  /** What deliverers logged. */
  logged = "";
  #deliverers = 0;

  private constructor(store: Store, projectId: string, appNumber: number) {
    this.store = store;
    this.projectId = projectId;
    this.appNumber = appNumber;
    this.secrets = new SigningSecrets({ store, seal: this.seal, clock: this.clock });
  }

  /** A project of the test's own; when that is over, nothing of it is due any more. */
  static async open(store: Store): Promise<Outbox> {
    const createdAt = Date.now();
    const projectId = `p-hooks${(projects += 1)}`;
    await store.projects.insert({ id: projectId, name: "test", createdAt });
    const app = await store.apps.insertOrFind({ projectId, name: "hello", createdAt });
    const box = new Outbox(store, projectId, app.number);
    onTestFinished(() => box.#giveUp());
    return box;
  }

  /** Ended runs, each with a response of its own on its way. */
  async add(url: string, count = 1, fields: Partial<NewDelivery> = {}): Promise<NewDelivery[]> {
    const { appNumber } = this;
    const createdAt = fields.createdAt ?? this.clock.now();
    const deliveries = Array.from({ length: count }, (_, place): NewDelivery => {
      const id = uuidv7(createdAt);
      const body = Buffer.from(`{"run_id":"${id}","result":"č 😀 ${place}","run_time_ms":1.25}`);
      const contentType = "application/json";
      return { id, appNumber, url, contentType, runStatus: 200, body, sealedSecret: null, nextAt: createdAt, createdAt, trace: null, ...fields }; // prettier-ignore
    });
    const webhook = { appNumber, webhookEndpoint: url, webhookState: "pending" } as const;
    const ends = deliveries.map((delivery) => ({
      run: sampleRun({ id: delivery.id, ...webhook }),
      delivery,
    }));
    await insertForwarded(this.store, ends);
    return deliveries;
  }

  /** A deliverer at work; it is stopped when the test is over. */
  deliverer(options: Partial<DelivererOptions> = {}): Deliverer {
    const { store, seal, secrets, clock: steadyClock } = this;
    // Receivers compare what a delivery says with their own time, which is not skipped.
    const clock: Clock = {
      now: () => Date.now(),
      monotonic: () => steadyClock.monotonic(),
      after: (ms, act) => steadyClock.after(ms, act),
      every: (ms, act) => steadyClock.every(ms, act),
    };
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
      clock,
      steadyClock,
      log: createLog("info", stream),
      allow: new AddressRanges(["127.0.0.0/8"]),
      tracer: new Tracer(null),
      owner: `service-${(this.#deliverers += 1)}`,
      stopMs: 100,
      ...options,
    });
    deliverer.start();
    onTestFinished(() => deliverer.stop());
    return deliverer;
  }

  async find(id: string): Promise<Delivery> {
    const delivery = await this.store.deliveries.find({ projectId: this.projectId, id });
    if (!delivery) throw new Error(`no delivery ${id}`);
    return delivery;
  }

  /** Waits until a delivery is as described; `stepMs` of its time pass at each look. */
  async became(
    id: string,
    what: string,
    holds: (delivery: Delivery) => boolean,
    stepMs = 0,
  ): Promise<Delivery> {
    await until(`delivery ${id} ${what}`, async () => {
      this.clock.skip(stepMs);
      return holds(await this.find(id));
    });
    return await this.find(id);
  }

  /** Waits until so many deliveries have that state; `stepMs` of their time pass at each look. */
  async count(state: Delivery["state"], count: number, stepMs = 0): Promise<void> {
    const { projectId } = this;
    await until(`${count} deliveries ${state}`, async () => {
      this.clock.skip(stepMs);
      const found = await this.store.deliveries.list({ projectId, state, limit: count + 1 });
      return found.length === count;
    });
  }

  /** Ends what is not delivered: the next test's deliverers serve the same store. */
  async #giveUp(): Promise<void> {
    const { deliveries, claims } = this.store;
    const owner = "nobody";
    await claims.recover({ owner, isAlone: true });
    const all = { now: Number.MAX_SAFE_INTEGER, owner, limit: 1_000 };
    const made = { startedAt: 0, durationMs: 0, requestHeaders: {}, status: null, error: "given up" };
    for (const { id, attempts } of await deliveries.claimDue(all)) {
      const attempt = { ...made, number: attempts + 1, nextAt: null };
      await deliveries.recordAttempt({ id, owner, attempt, state: "failed", now: 0 });
    }
  }
}

/** Outboxes on one store for the tests of a file; to open one takes a second of a processor. */
export function outboxes(kind: DatabaseKind = "sqlite"): () => Promise<Outbox> {
  const databases = testDatabases();
  let store: Store | undefined;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(() => store?.close());
  return async () => {
    if (!store) throw new Error("the store is not open yet");
    return await Outbox.open(store);
  };
}
