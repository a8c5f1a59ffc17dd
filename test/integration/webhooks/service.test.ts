import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import type { Answer } from "../../support/service.ts";
import { MODES, type Received, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { MAIN as ASYNC_MAIN, ONE, ledger, letGo, submit } from "../async/site.ts";

const MAIN = `
import os

def run(text: str = "x"):
    return {"text": text, "big": 9007199254740993, "environment": dict(os.environ)}

def fail():
    raise ValueError("no such model ☃")

def count(upper_range: int = 3):
    for i in range(upper_range):
        yield f"number {i}"
`;
const service = sharedService({ hello: { main: MAIN } }, { webhookAllow: "127.0.0.0/8" });

const suffix = (url: string, isAsync: boolean): string =>
  `?${isAsync ? "async=true&" : ""}webhookEndpoint=${encodeURIComponent(url)}`;

/** Asks the management API as the project's owner. */
// oxlint-disable-next-line no-explicit-any
async function ask(method: string, place: string): Promise<any> {
  const { baseUrl, owner } = service().service;
  const response = await fetch(`${baseUrl}/v2/projects/${owner.projectId}${place}`, {
    method,
    headers: { authorization: `Bearer ${owner.token}` },
  });
  expect(response.status).toBe(200);
  return await response.json();
}

/** Waits for the delivery of a run. */
async function delivered(target: WebhookTarget, answer: Answer): Promise<Received> {
  const id = answer.headers.get("x-request-id");
  const find = () => target.received.find(({ headers }) => headers["webhook-id"] === id);
  await until(`the delivery of run ${id}`, () => find() !== undefined);
  return find() as Received;
}

verifies(
  ["webhook.forward", "webhook.url-encoded", "webhook.no-code"],
  "the body of an async run's response is posted to the address, byte for byte and signed",
  async () => {
    const target = await WebhookTarget.open();
    const { secret } = await ask("POST", "/webhook-secrets");
    const url = `${target.url}/hook?a=1&b=x%20y`;
    const answer = await service().call("hello", { text: "č" }, { suffix: suffix(url, true) });
    expect(answer.status).toBe(202);
    const received = await delivered(target, answer);
    expect(received).toMatchObject({ method: "POST", path: "/hook?a=1&b=x%20y" });
    const id = answer.json.run_id as string;
    expect(received.headers).toMatchObject({
      "content-type": "application/json",
      "x-request-id": id,
      "x-millrace-run-status": "200",
    });
    expect(received.body.toString()).toMatch(
      /^\{"run_id":"[^"]+","result":\{"text":"č","big":9007199254740993,/,
    );
    const stored = await service().service.store.payloads.find({
      appNumber: service().apps.get("hello")?.app.number ?? 0,
      id,
    });
    expect(received.body.equals(stored?.result ?? Buffer.alloc(0))).toBe(true);
    const headers = received.headers as Record<string, string>;
    expect(new Webhook(secret).verify(received.body.toString(), headers)).toMatchObject({ run_id: id });
    await until("the run says so", async () => {
      const { json } = await service().ofRun("hello", id);
      return json.webhookStatus === "delivered";
    });
    const { item } = await ask("GET", `/deliveries/${id}`);
    expect(item).toMatchObject({ state: "delivered", url, attemptCount: 1, attempts: [{ status: 204 }] });
  },
);

verifies("webhook.sync-too", "a sync caller and the webhook get the same bytes", async () => {
  const target = await WebhookTarget.open();
  const options = { suffix: suffix(target.url, false) };
  const answer = await service().call("hello", { text: "y" }, options);
  expect(answer.status).toBe(200);
  const { body, headers } = await delivered(target, answer);
  expect(body.toString()).toBe(answer.text);
  expect(headers["content-type"]).toBe(answer.headers.get("content-type"));
});

verifies("webhook.failures-too", "what a failed run answers is forwarded too", async () => {
  const target = await WebhookTarget.open();
  const options = { functionName: "fail" };
  const sync = await service().call("hello", {}, { ...options, suffix: suffix(target.url, false) });
  expect(sync.status).toBe(500);
  const first = await delivered(target, sync);
  expect(first.body.toString()).toBe(sync.text);
  expect(first.headers["x-millrace-run-status"]).toBe("500");
  const later = await service().call("hello", {}, { ...options, suffix: suffix(target.url, true) });
  const second = await delivered(target, later);
  expect(JSON.parse(second.body.toString())).toMatchObject({
    code: "app_error",
    message: "ValueError: no such model ☃",
    request_id: later.json.run_id,
  });
});

test("a stream is forwarded whole, as the events its reader gets", async () => {
  const target = await WebhookTarget.open();
  const options = { functionName: "count", suffix: suffix(target.url, false) };
  const answer = await service().call("hello", {}, options);
  const { body, headers } = await delivered(target, answer);
  expect(body.toString()).toBe(answer.text);
  expect(headers["content-type"]).toBe("text/event-stream; charset=utf-8");
});

verifies("webhook.no-delay", "a caller does not wait for a webhook that does not answer", async () => {
  const target = await WebhookTarget.open(MODES.hang);
  const answer = await service().call("hello", {}, { suffix: suffix(target.url, false) });
  expect(answer.status).toBe(200);
  await delivered(target, answer);
  const { item } = await ask("GET", `/deliveries/${answer.headers.get("x-request-id")}`);
  expect(item).toMatchObject({ state: "pending", attemptCount: 0 });
});

test("an address that webhooks may not reach is refused before anything runs", async () => {
  for (const isAsync of [true, false]) {
    for (const url of ["http://10.0.0.1/", "ftp://example.com/", "http://user@example.com/", ""]) {
      const answer = await service().call("hello", {}, { suffix: suffix(url, isAsync) });
      expect([url, answer.status, answer.json.code]).toEqual([url, 422, "invalid_webhook"]);
    }
  }
});

verifies(
  "deploy.delete",
  "queued runs of a deleted app end as failures, and their webhooks are told",
  async () => {
    const on = service();
    const name = await on.own({ main: ASYNC_MAIN, toml: ONE });
    const { app } = on.apps.get(name)!;
    const target = await WebhookTarget.open();
    const held = await submit(on, name, {}, { functionName: "hold" });
    await until("the first one runs", () => ledger(on, name).length === 1);
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      ids.push((await on.call(name, {}, { suffix: suffix(target.url, true) })).json.run_id);
    }
    await ask("DELETE", `/apps/${on.service.owner.projectId}-${name}`);
    expect((await on.call(name)).json.code).toBe("app_not_found");
    await target.has(3);
    for (const { headers, body } of target.received) {
      expect(ids).toContain(headers["x-request-id"]);
      expect([headers["x-millrace-run-status"], JSON.parse(String(body))]).toMatchObject([
        "404",
        { code: "app_not_found", message: "The app was deleted before the run began." },
      ]);
    }
    const { store } = on.service;
    const stateOf = async (id: string): Promise<unknown> =>
      (await store.runs.find({ appNumber: app.number, id }))?.state;
    expect(await Promise.all(ids.map(stateOf))).toEqual(["failure", "failure", "failure"]);
    expect(await stateOf(held)).toBe("running");
    letGo(on, name);
    await until("what ran has ended", async () => (await stateOf(held)) === "success");
  },
);
