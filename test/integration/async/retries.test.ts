import { expect } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ended, look, recordOf, Site, submit } from "./site.ts";

/** Each attempt notes itself, and does what the run asks for. */
const MAIN = `
import os
import millrace

class Busy(ConnectionError):
    pass

class Limited(Exception):
    retry_after = 7

def run(ways):
    attempt = millrace.run.attempt
    way = ways[attempt - 1]
    if way == "die":
        os._exit(3)
    if way == "busy":
        raise Busy("attempt %d" % attempt)
    if way == "value":
        raise ValueError("attempt %d" % attempt)
    if way == "limited":
        raise Limited("slow down")
    if way == "never":
        raise millrace.NoRetry("the input is wrong")
    return attempt
`;
const toml = (retry: string): string => `[scaling]\nmax_replicas = 1\n[retry]\n${retry}`;

const clock = new SkippingClock();
const service = sharedService(
  {
    any: {
      main: MAIN,
      toml: toml('on = ["crash", "error"]\nmax_attempts = 4\ninitial_delay = "10m"\njitter = 0\n'),
    },
    some: { main: MAIN, toml: toml('on = ["ConnectionError"]\nmax_attempts = 3\ninitial_delay = 0\n') },
  },
  { ...WITHOUT_WALLS, webhookAllow: "127.0.0.0/8" },
  { clock },
);

const MINUTE_MS = 60_000;

/** Lets time pass until the run's next attempt, if it waits for one. */
async function untilEnded(app: string, id: string) {
  await until("the run has ended", async () => {
    const { status, dueAt } = await recordOf(service(), app, id);
    if (status === "queued" && dueAt !== undefined) clock.leap(Math.max(0, Date.parse(dueAt) - clock.now()));
    return status === "success" || status === "failure";
  });
  return await recordOf(service(), app, id);
}

verifies(
  ["retry.on", "retry.delays", "retry.attempts"],
  "attempts wait longer each time, and the record has each of them",
  async () => {
    const id = await submit(service(), "any", { ways: ["value", "die", "busy", "fine"] });
    const run = await untilEnded("any", id);
    expect(run).toMatchObject({ status: "success", attempt: 4, error: null });
    expect(run).not.toHaveProperty("dueAt");
    const attempts = run.attempts ?? [];
    expect(attempts.map(({ number, error }) => [number, error?.code, error?.message.split(" (")[0]])).toEqual(
      [
        [1, "app_error", "ValueError: attempt 1"],
        [2, "app_crashed", "The app's process ended before it answered"],
        [3, "app_error", "Busy: attempt 3"],
        [4, undefined, undefined],
      ],
    );
    const waits = attempts.slice(1).map(({ startedAt }, i) => {
      const before = Date.parse(attempts[i]!.completedAt ?? "");
      return Math.floor((Date.parse(startedAt ?? "") - before) / MINUTE_MS);
    });
    expect(waits).toEqual([10, 20, 40]);
    const { json } = await look(service(), "any", id);
    expect([json.result, json.attempts]).toEqual([4, attempts]);
  },
);

verifies("retry.on", "exceptions are meant by their class and those above it", async () => {
  const busy = await submit(service(), "some", { ways: ["busy", "busy", "fine"] });
  expect(await untilEnded("some", busy)).toMatchObject({ status: "success", attempt: 3 });
  const other = await submit(service(), "some", { ways: ["busy", "value", "fine"] });
  expect(await untilEnded("some", other)).toMatchObject({
    status: "failure",
    attempt: 2,
    error: { message: "ValueError: attempt 2" },
  });
  const always = await submit(service(), "some", { ways: ["busy", "busy", "busy"] });
  expect(await untilEnded("some", always)).toMatchObject({ status: "failure", attempt: 3 });
});

verifies("retry.after", "an exception says how long to wait", async () => {
  const id = await submit(service(), "any", { ways: ["limited", "fine"] });
  await until("it waits", async () => (await recordOf(service(), "any", id)).dueAt !== undefined);
  const { dueAt, attempts } = await recordOf(service(), "any", id);
  expect(Date.parse(dueAt ?? "") - Date.parse(attempts?.[0]?.completedAt ?? "")).toBeLessThan(8_000);
  expect(await untilEnded("any", id)).toMatchObject({ status: "success", attempt: 2 });
});

verifies("retry.no-retry", "NoRetry ends the run", async () => {
  const id = await submit(service(), "any", { ways: ["value", "never", "fine"] });
  expect(await untilEnded("any", id)).toMatchObject({
    status: "failure",
    attempt: 2,
    error: { code: "app_error", message: "NoRetry: the input is wrong" },
  });
});

verifies("retry.cancel", "a run that waits for its next attempt can be cancelled", async () => {
  const id = await submit(service(), "any", { ways: ["value", "fine"] });
  await until("it waits", async () => (await recordOf(service(), "any", id)).dueAt !== undefined);
  const { json } = await service().call("any", {}, { functionName: `runs/${id}/cancel` });
  expect(json).toEqual({ run_id: id });
  const run = await recordOf(service(), "any", id);
  expect([run.status, run.attempt, run.dueAt]).toEqual(["cancelled", 2, undefined]);
  clock.leap(20 * MINUTE_MS);
  expect(await recordOf(service(), "any", id)).toEqual(run);
});

verifies("retry.webhook", "a webhook is called once, with the response of the last attempt", async () => {
  const target = await WebhookTarget.open();
  const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(`${target.url}/hook`)}`;
  const { json } = await service().call("any", { ways: ["value", "die", "fine"] }, { suffix });
  expect(await untilEnded("any", json.run_id)).toMatchObject({ status: "success", attempt: 3 });
  await until("it was forwarded", () => target.received.length > 0, target.news);
  expect(target.received.map(({ body }) => JSON.parse(body.toString()).result)).toEqual([3]);
});

verifies("retry.async", "a sync call has one attempt", async () => {
  const { status, json } = await service().call("any", { ways: ["value", "fine"] });
  expect([status, json.message]).toEqual([500, "ValueError: attempt 1"]);
});

verifies("retry.deleted", "a run that waits for its next attempt ends with its app", async () => {
  const on = service();
  const name = await on.own({ main: MAIN, toml: toml('on = ["error"]\ninitial_delay = "1h"\njitter = 0\n') });
  const id = await submit(on, name, { ways: ["value", "fine"] });
  await until("it waits", async () => (await recordOf(on, name, id)).dueAt !== undefined);
  const { number: appNumber } = on.apps.get(name)!.app;
  const { projectId } = on.service.owner;
  await asOwner(on)("DELETE", `/v2/projects/${projectId}/apps/${projectId}-${name}`);
  await until("it has ended", async () => {
    const run = await on.service.store.runs.find({ appNumber, id });
    return run?.state === "failure" && run.errorCode === "app_not_found";
  });
});

verifies("retry.durable", "a run that waits for its next attempt goes on in the next service", async () => {
  const site = new Site({
    app: { main: MAIN, toml: toml('on = ["error"]\ninitial_delay = "1h"\njitter = 0\n') },
  });
  const flags = WITHOUT_WALLS;
  const first = await site.start({ flags, clock });
  const id = await submit(first, "app", { ways: ["value", "fine"] });
  await until("it waits", async () => (await recordOf(first, "app", id)).dueAt !== undefined);
  await first.service.stop();
  const next = await site.start({ flags, clock });
  expect((await recordOf(next, "app", id)).status).toBe("queued");
  clock.leap(61 * MINUTE_MS);
  expect(await ended(next, "app", id)).toMatchObject({ status: "success", attempt: 2 });
});
