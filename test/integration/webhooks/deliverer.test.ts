import { createHmac, randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, test } from "vitest";
import { type Clock, steady } from "../../../src/kit/clock.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { HOST_LIMITS, Waiting } from "../../../src/runs/webhooks/queueing.ts";
import { SigningSecrets } from "../../../src/runs/webhooks/signing-secrets.ts";
import { triedKinds } from "../../support/databases.ts";
import { outboxes } from "../../support/outbox.ts";
import { until } from "../../support/until.ts";
import { MODES, type Received, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const outbox = outboxes();
const DAY_MS = 86_400_000;

const idOf = ({ headers }: Received): string => String(headers["webhook-id"]);

/** Checks a delivery the way a receiver with a Standard Webhooks library does. */
function verify(secret: string, { headers, body }: Received): unknown {
  return new Webhook(secret).verify(body.toString(), headers as Record<string, string>);
}

describe.each(triedKinds("sqlite"))("on %s", (kind) => {
  const boxes = kind === "sqlite" ? outbox : outboxes(kind);

  test("a target that is down for long gets everything when it is back, whole and signed", async () => {
    const box = await boxes();
    const target = await WebhookTarget.open();
    await target.down();
    const sent = await box.add(`${target.url}/hook`, 20);
    const first = sent[0]?.id ?? "";
    // No attempt is late, however many seconds pass while it is made.
    box.deliverer({ deadlineMs: 30 * DAY_MS });
    // The host is at rest most of the time, and tried by one of them after the other.
    await box.became(first, "was tried three times", ({ attempts }) => attempts >= 3, 60_000);
    await target.up();
    await box.count("delivered", sent.length, 60_000);

    expect(new Set(target.received.map(idOf))).toEqual(new Set(sent.map(({ id }) => id)));
    const [secret = ""] = await box.secrets.active(box.projectId);
    for (const received of target.received) {
      const delivery = sent.find(({ id }) => id === idOf(received));
      expect(received.body.equals(delivery?.body ?? Buffer.alloc(0))).toBe(true);
      expect(verify(secret, received)).toMatchObject({ run_id: idOf(received) });
    }
    expect(await box.store.runs.find({ appNumber: box.appNumber, id: first })).toMatchObject({
      webhookState: "delivered",
    });
    const { attempts } = await box.find(first);
    const tried = await box.store.deliveries.attempts(first);
    expect(tried.map(({ number }) => number)).toEqual(Array.from({ length: attempts }, (_, i) => i + 1));
    expect(tried.slice(0, -1).every(({ error }) => error === "connection_refused")).toBe(true);
  });

  test("a delivery that a dead service held is sent by another", async () => {
    const box = await boxes();
    const target = await WebhookTarget.open(MODES.hang);
    const [delivery] = await box.add(target.url);
    const died = box.deliverer({ deadlineMs: DAY_MS });
    await target.has(1);
    // Broken off after the target has it and before that is on record: as a death would.
    await died.stop();
    expect(await box.find(delivery?.id ?? "")).toMatchObject({ state: "pending", attempts: 0 });
    target.behave = MODES.ok;
    await box.store.claims.recover({ owner: "service-2", isAlone: kind === "sqlite" });
    box.deliverer();
    await box.count("delivered", 1);
    expect(target.received.map(idOf)).toEqual([delivery?.id, delivery?.id]);
  });

  verifies("webhook.redeliver", "one delivery, or all of a time, can be sent again", async () => {
    const box = await boxes();
    const target = await WebhookTarget.open(MODES[410]);
    const start = Date.UTC(2026, 0, 1);
    for (const hour of [0, 1, 2, 3]) await box.add(target.url, 1, { createdAt: start + hour * 3_600_000 });
    const deliverer = box.deliverer();
    await box.count("failed", 4);
    target.behave = MODES.ok;
    const { projectId } = box;
    const [newest] = await box.store.deliveries.list({ projectId, limit: 1 });
    const ids = [newest?.id ?? ""];
    expect(await box.store.deliveries.redeliver({ projectId, ids, now: Date.now() })).toBe(1);
    deliverer.wake();
    await box.count("delivered", 1);
    expect(target.received.slice(4).map(idOf)).toEqual(ids);
    const range = { from: start + 3_600_000, to: start + 3 * 3_600_000 };
    expect(await box.store.deliveries.redeliver({ projectId, ...range, now: Date.now() })).toBe(2);
    deliverer.wake();
    await box.count("delivered", 3);
    await box.count("failed", 1);
    expect((await box.store.deliveries.attempts(ids[0] ?? "")).map(({ status }) => status)).toEqual([
      410, 204,
    ]);
  });
});

verifies(
  "webhook.attempts",
  "each attempt is on record, and the last failure ends the delivery",
  async () => {
    const box = await outbox();
    const target = await WebhookTarget.open(MODES[500]);
    const [delivery] = await box.add(`${target.url}/secret-path?token=x`);
    const id = delivery?.id ?? "";
    box.deliverer({ deadlineMs: 30 * DAY_MS });
    // Nearly two days by the schedule.
    await box.became(id, "has failed", ({ state }) => state === "failed", DAY_MS);
    const attempts = await box.store.deliveries.attempts(id);
    expect(attempts).toHaveLength(9);
    for (const [place, attempt] of attempts.entries()) {
      expect(attempt).toMatchObject({ number: place + 1, status: 500, error: "bad_status" });
      // As they were received, apart from what belongs to the connection.
      const { host: _, connection: __, ...headers } = target.received[place]?.headers ?? {};
      expect(attempt.requestHeaders).toEqual(headers);
      expect(attempt.durationMs).toBeGreaterThanOrEqual(0);
      expect(attempt.nextAt === null).toBe(place === 8);
    }
    expect(await box.store.runs.find({ appNumber: box.appNumber, id })).toMatchObject({
      webhookState: "failed",
    });
    expect(box.logged).toContain("gave up on a webhook delivery");
    expect(box.logged).not.toContain("secret-path");
  },
);

verifies("webhook.410", "a 410 stops the delivery at once", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open(MODES[410]);
  const [delivery] = await box.add(target.url);
  box.deliverer();
  expect(await box.became(delivery?.id ?? "", "has failed", ({ state }) => state === "failed")).toMatchObject(
    { attempts: 1, nextAt: null },
  );
});

const FAILURES = [
  ["500", { status: 500, error: "bad_status" }, 5_000],
  ["302", { status: 302, error: "redirect" }, 5_000],
  ["429", { status: 429, error: "bad_status" }, 120_000],
  ["hang", { status: null, error: "timed_out" }, 5_000],
  ["drip", { status: 200, error: "timed_out" }, 5_000],
  ["reset", { status: null, error: "connection_reset" }, 5_000],
] as const;

test("every kind of failure is on record and tried again by the schedule", async () => {
  const box = await outbox();
  const deliverer = box.deliverer();
  for (const [mode, expected, gapMs] of FAILURES) {
    const target = await WebhookTarget.open(MODES[mode]);
    const [delivery] = await box.add(target.url);
    const id = delivery?.id ?? "";
    const before = box.clock.now();
    deliverer.wake();
    await target.has(1);
    // A drip of the answer has come by the time the second is sent.
    if (mode === "drip") await until("the answer drips", () => target.drips >= 3);
    if (expected.error === "timed_out") box.clock.skip(15_000);
    const tried = await box.became(id, "was tried", ({ attempts }) => attempts === 1);
    expect(tried.state).toBe("pending");
    const [attempt] = await box.store.deliveries.attempts(id);
    expect(attempt).toMatchObject({ ...expected, nextAt: tried.nextAt });
    // Counted from the attempt's end, which was after `before`. What a target asks for is a tenth longer at most.
    expect(tried.nextAt ?? 0).toBeGreaterThanOrEqual(before + gapMs * (mode === "429" ? 1 : 0.9));
    expect(tried.nextAt ?? Infinity).toBeLessThanOrEqual(box.clock.now() + gapMs * 1.1);
  }
});

test("an endless answer of success is success", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open(MODES.endless);
  await box.add(target.url);
  box.deliverer();
  await box.count("delivered", 1);
});

test("one dead host delays nobody else, however much waits for it", async () => {
  const box = await outbox();
  const dead = await WebhookTarget.open(MODES.hang);
  const alive = await WebhookTarget.open();
  // More than may wait in memory: the rest is put off.
  await box.add(dead.url, 300);
  const waiting = new Waiting(150, 1_000);
  const deliverer = box.deliverer({ deadlineMs: DAY_MS, waiting });
  await dead.has(HOST_LIMITS.attempts);
  await box.add(alive.url, 100);
  deliverer.wake();
  await box.count("delivered", 100);
  // None of the attempts at the dead host is over: nobody has waited for one.
  expect(dead.received).toHaveLength(HOST_LIMITS.attempts);
  const { projectId } = box;
  const pending = await box.store.deliveries.list({ projectId, state: "pending", limit: 1_000 });
  expect(pending).toHaveLength(300);
  // What was put off has used up no attempt.
  expect(pending.filter(({ attempts }) => attempts > 0)).toEqual([]);
});

verifies("webhook.rotation", "several secrets sign each delivery, until they are removed", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  const old = await box.secrets.make(box.projectId);
  const deliverer = box.deliverer();
  const deliver = async (): Promise<Received> => {
    const place = target.received.length;
    await box.add(target.url);
    deliverer.wake();
    await target.has(place + 1);
    return target.received[place] as Received;
  };
  expect(verify(old.secret, await deliver())).toBeDefined();
  const fresh = await box.secrets.make(box.projectId);
  const both = await deliver();
  expect(String(both.headers["webhook-signature"]).split(" ")).toHaveLength(2);
  expect([verify(old.secret, both), verify(fresh.secret, both)]).not.toContain(undefined);
  expect(await box.secrets.retire(box.projectId, old.id)).toBe(true);
  const last = await deliver();
  expect(verify(fresh.secret, last)).toBeDefined();
  expect(() => verify(old.secret, last)).toThrow(/signature/i);
});

verifies("webhook.caller-secret", "the caller's own secret signs in hex and appears nowhere", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  await target.down();
  const id = "0197c3a0-7e1b-7abc-8def-0123456789ab";
  const sealedSecret = box.seal.close(Buffer.from("callers-own"), `webhook_secret.${id}`);
  await box.add(target.url, 1, { id, sealedSecret });
  box.deliverer({ deadlineMs: 30 * DAY_MS });
  await box.became(id, "was tried", ({ attempts }) => attempts > 0);
  await target.up();
  const delivered = await box.became(id, "has arrived", ({ state }) => state === "delivered", 5_000);
  const received = target.received[0] as Received;
  const timestamp = String(received.headers["x-cerebrium-webhook-timestamp"]);
  const hex = createHmac("sha256", "callers-own")
    .update(Buffer.concat([Buffer.from(`${id}.${timestamp}.`), received.body]))
    .digest("hex");
  expect(received.headers["x-cerebrium-webhook-signature"]).toBe(`v1,${hex}`);
  expect(timestamp).toBe(received.headers["webhook-timestamp"]);
  expect(delivered.sealedSecret).toBe(null);
  expect(JSON.stringify(await box.store.deliveries.attempts(id)) + box.logged).not.toContain("callers-own");
});

test("a secret that cannot be opened is a failed attempt, not a stop", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  const errorOf = async (id = ""): Promise<string | null | undefined> => {
    await box.became(id, "was tried", ({ attempts }) => attempts > 0);
    return (await box.store.deliveries.attempts(id))[0]?.error;
  };
  const [broken] = await box.add(target.url, 1, { sealedSecret: Buffer.alloc(60) });
  await box.add(target.url);
  const first = box.deliverer();
  await box.count("delivered", 1);
  expect(await errorOf(broken?.id)).toBe("secret_unreadable");
  await first.stop();

  // The project's own secret, for a service with another master key.
  const seal = new Seal(randomBytes(32));
  const secrets = new SigningSecrets({ store: box.store, seal, clock: box.clock });
  const [unsigned] = await box.add(target.url);
  box.deliverer({ seal, secrets });
  expect(await errorOf(unsigned?.id)).toBe("secret_unreadable");
  expect(box.logged).toContain("another master key");
});

test("setting the clock neither delays an attempt nor repeats one", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open(MODES[500]);
  let jumpMs = 0;
  const { clock: time } = box;
  const clock: Clock = {
    now: () => time.now() + jumpMs,
    monotonic: () => time.monotonic(),
    after: (ms, act) => time.after(ms, act),
    every: (ms, act) => time.every(ms, act),
  };
  const [delivery] = await box.add(target.url);
  const id = delivery?.id ?? "";
  const minute = 60_000;
  const hour = 60 * minute;
  box.deliverer({
    clock,
    steadyClock: steady(clock),
    deadlineMs: DAY_MS,
    gapsMs: [0, minute, minute, minute, hour, hour],
  });
  await box.became(id, "was tried", ({ attempts }) => attempts === 1);
  jumpMs = -hour;
  await box.became(id, "was tried again", ({ attempts }) => attempts === 2, 10_000);
  jumpMs = 10 * 365 * DAY_MS;
  const before = time.now();
  await box.became(id, "was tried twice more", ({ attempts }) => attempts === 4, 10_000);
  // The next one is an hour off, whatever the clock on the wall says.
  const { nextAt } = await box.find(id);
  expect(nextAt ?? 0).toBeGreaterThan(before + 0.9 * hour);
  expect(nextAt ?? 0).toBeLessThanOrEqual(time.now() + 1.1 * hour);
});

test("a delivery planned by a clock that was years ahead is sent now", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  const [delivery] = await box.add(target.url, 1, { nextAt: Date.now() + 10 * 365 * DAY_MS });
  box.deliverer();
  await box.became(delivery?.id ?? "", "has arrived", ({ state }) => state === "delivered");
});

test("while storage fails, what was sent is recorded as soon as it can be, and not sent twice", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  let failures = 0;
  const failing = <Input, Result>(call: (input: Input) => Promise<Result>) => {
    return async (input: Input): Promise<Result> => {
      failures += 1;
      if (failures % 3 !== 0) throw new Error("the disk is full");
      return await call(input);
    };
  };
  const { deliveries } = box.store;
  const recordAttempt = failing(deliveries.recordAttempt);
  const store = { ...box.store, deliveries: { ...deliveries, recordAttempt } };
  await box.add(target.url, 3);
  box.deliverer({ store, deadlineMs: DAY_MS });
  await box.count("delivered", 3, 1_000);
  expect(target.received).toHaveLength(3);
  expect(box.logged).toContain("the disk is full");
});

test("an idle deliverer learns of new deliveries by being woken", async () => {
  const box = await outbox();
  const target = await WebhookTarget.open();
  const deliverer = box.deliverer();
  for (let place = 1; place <= 5; place += 1) {
    await box.add(target.url);
    deliverer.wake();
    await target.has(place);
  }
  await until("all recorded", async () => {
    const { projectId } = box;
    return (await box.store.deliveries.list({ projectId, state: "pending", limit: 1 })).length === 0;
  });
});
