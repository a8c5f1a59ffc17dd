import type { FastifyInstance } from "fastify";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test } from "vitest";
import { Audit } from "../../../src/identity/audit.ts";
import type { Role } from "../../../src/model/roles.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { uuidv7 } from "../../support/ids.ts";
import { createLog } from "../../../src/kit/log.ts";
import { createListener } from "../../../src/management/api/listener.ts";
import type { ManagementParts } from "../../../src/management/parts.ts";
import { mount } from "../../../src/management/api/mount.ts";
import { webhookOperations } from "../../../src/management/projects/webhooks.ts";
import { type Outbox, outboxes } from "../../support/outbox.ts";
import { MODES, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const outbox = outboxes();

type Asked = { readonly status: number; readonly headers: Record<string, unknown>; readonly json: any }; // oxlint-disable-line no-explicit-any

/** The routes alone, asked as somebody with a role in the project. */
class Routes {
  readonly app: FastifyInstance = createListener(createLog("silent"));
  readonly projectId: string;
  readonly audit: Audit;
  wakes = 0;

  constructor(box: Outbox, wake: () => void = () => {}) {
    const { store, secrets: signingSecrets, projectId } = box;
    this.projectId = projectId;
    this.audit = new Audit(store, systemClock);
    const parts = {
      store,
      signingSecrets,
      steadyClock: systemClock,
      wake: () => {
        this.wakes += 1;
        wake();
      },
    } as unknown as ManagementParts;
    // Whoever says so is of the role.
    const authenticate = async (role: string | null) => {
      const caller = { accountId: "a", user: null };
      const fairness = { key: "a", weight: 1 };
      return {
        accountId: "a",
        projectId,
        role: role as Role,
        limits: null,
        caller,
        fairness,
        quotas: null,
        expiresAt: Infinity,
      };
    };
    mount(this.app, webhookOperations(parts), { authenticate, audit: this.audit });
    onTestFinished(() => this.app.close());
  }

  async ask(method: "GET" | "POST" | "DELETE", path: string, body?: unknown, role = "admin"): Promise<Asked> {
    const url = path.startsWith("/v2") ? path : `/v2/projects/${this.projectId}${path}`;
    const headers = { authorization: role };
    const answer = await this.app.inject({
      method,
      url,
      headers,
      ...(body !== undefined && { payload: body as object }),
    });
    return { status: answer.statusCode, headers: answer.headers, json: answer.json() };
  }
}

verifies("webhook-secrets.routes", "webhook secrets are made, shown once, listed and removed", async () => {
  const box = await outbox();
  const routes = new Routes(box);
  expect(await routes.ask("GET", "/webhook-secrets")).toMatchObject({ status: 200, json: [] });
  const made = await routes.ask("POST", "/webhook-secrets");
  expect(made.status).toBe(200);
  expect(made.headers["cache-control"]).toBe("no-store");
  expect(Object.keys(made.json)).toEqual(["id", "createdAt", "secret"]);
  const { id, createdAt, secret } = made.json as Record<string, string>;
  expect(await box.secrets.active(box.projectId)).toEqual([secret]);
  const listed = await routes.ask("GET", "/webhook-secrets", undefined, "deploy");
  expect(listed.json).toEqual([{ id, createdAt }]);
  expect(new Date(createdAt ?? "").toISOString()).toBe(createdAt);
  expect(await routes.ask("DELETE", `/webhook-secrets/${id}`)).toMatchObject({ status: 200, json: { id } });
  expect((await routes.ask("GET", "/webhook-secrets")).json).toEqual([]);
  expect((await routes.ask("DELETE", `/webhook-secrets/${id}`)).status).toBe(404);
  const audited = await routes.audit.list({ projectId: routes.projectId, limit: 10 });
  expect(audited.map(({ action, target }) => [action, target])).toEqual([
    ["webhook-secret.delete", id],
    ["webhook-secret.create", id],
  ]);
  expect(JSON.stringify(audited)).not.toContain(secret);
});

test("a project has a bounded number of webhook secrets", async () => {
  const routes = new Routes(await outbox());
  for (let i = 0; i < 10; i += 1) expect((await routes.ask("POST", "/webhook-secrets")).status).toBe(200);
  expect(await routes.ask("POST", "/webhook-secrets")).toMatchObject({
    status: 400,
    json: { code: "bad_request" },
  });
});

test("each route asks for its role, and another project's is refused", async () => {
  const routes = new Routes(await outbox());
  const id = uuidv7(Date.now());
  const statuses = [
    (await routes.ask("GET", "/webhook-secrets", undefined, "run")).status,
    (await routes.ask("POST", "/webhook-secrets", undefined, "deploy")).status,
    (await routes.ask("DELETE", "/webhook-secrets/x", undefined, "deploy")).status,
    (await routes.ask("GET", "/v2/projects/p-other/webhook-secrets")).status,
    (await routes.ask("GET", "/v2/projects/p-other/deliveries")).status,
    (await routes.ask("GET", `/v2/projects/p-other/deliveries/${id}`)).status,
    (await routes.ask("POST", `/v2/projects/p-other/deliveries/${id}/redeliver`)).status,
    (await routes.ask("POST", "/v2/projects/p-other/deliveries/redeliver", {})).status,
  ];
  expect(new Set(statuses)).toEqual(new Set([403]));
});

verifies(
  "deliveries.routes",
  "deliveries are listed, shown with their attempts, and sent again",
  async () => {
    const box = await outbox();
    const target = await WebhookTarget.open(MODES[410]);
    const start = Date.UTC(2026, 0, 1);
    for (const day of [0, 1, 2]) await box.add(target.url, 1, { createdAt: start + day * 86_400_000 });
    const deliverer = box.deliverer();
    await box.count("failed", 3);
    const routes = new Routes(box, () => deliverer.wake());

    const first = await routes.ask("GET", "/deliveries?state=failed&pageSize=2", undefined, "run");
    expect(first.json.items).toHaveLength(2);
    const second = await routes.ask("GET", `/deliveries?pageSize=2&nextToken=${first.json.nextToken}`);
    expect(second.json).toMatchObject({ items: [{ createdAt: "2026-01-01T00:00:00.000Z" }], nextToken: "" });
    expect((await routes.ask("GET", "/deliveries?state=pending")).json).toEqual({ items: [], nextToken: "" });
    const [item] = first.json.items;
    expect(item).toEqual({
      id: item.id,
      projectId: box.projectId,
      modelId: `${box.projectId}-hello`,
      url: target.url,
      contentType: "application/json",
      runStatusCode: 200,
      state: "failed",
      attemptCount: 1,
      nextAt: null,
      createdAt: "2026-01-03T00:00:00.000Z",
      updatedAt: item.updatedAt,
    });

    const shown = await routes.ask("GET", `/deliveries/${item.id}`, undefined, "run");
    expect(shown.json.item).toMatchObject({
      ...item,
      attempts: [{ number: 1, status: 410, error: "bad_status", nextAt: null }],
    });
    expect(shown.json.item.attempts[0].requestHeaders["webhook-id"]).toBe(item.id);

    target.behave = MODES.ok;
    const again = await routes.ask("POST", `/deliveries/${item.id}/redeliver`);
    expect(again).toMatchObject({ status: 200, json: { redelivered: 1 } });
    await box.count("delivered", 1);
    const range = { from: "2026-01-01T00:00:00Z", to: "2026-01-02T01:00:00+01:00" };
    const counted = await routes.ask("POST", "/deliveries/redeliver", { ...range, countOnly: true });
    expect([counted.json, routes.wakes]).toEqual([{ redelivered: 1 }, 1]);
    expect((await routes.ask("POST", "/deliveries/redeliver", range)).json).toEqual({ redelivered: 1 });
    await box.count("delivered", 2);
    expect(routes.wakes).toBe(2);
    const [secret = ""] = await box.secrets.active(box.projectId);
    const last = target.received.at(-1);
    expect(
      new Webhook(secret).verify(String(last?.body), last?.headers as Record<string, string>),
    ).toBeDefined();
  },
);

const ODD = [
  ["GET", "/deliveries?state=odd", undefined, 400],
  ["GET", "/deliveries?pageSize=0", undefined, 400],
  ["GET", "/deliveries?pageSize=1000", undefined, 400],
  ["GET", "/deliveries?nextToken=%%%", undefined, 400],
  ["GET", "/deliveries?nextToken=bm90LWFuLWlk", undefined, 400],
  ["GET", "/deliveries/not-an-id", undefined, 404],
  ["GET", "/deliveries/0197c3a0-7e1b-7abc-8def-0123456789ab", undefined, 404],
  ["POST", "/deliveries/0197c3a0-7e1b-7abc-8def-0123456789ab/redeliver", undefined, 404],
  ["POST", "/deliveries/redeliver", {}, 400],
  ["POST", "/deliveries/redeliver", { from: "yesterday", to: "2026-01-01T00:00:00Z" }, 400],
  ["POST", "/deliveries/redeliver", undefined, 400],
] as const;

test("a query, an id or a range that makes no sense is refused", async () => {
  const routes = new Routes(await outbox());
  for (const [method, path, body, status] of ODD) {
    const answer = await routes.ask(method, path, body);
    expect([path, answer.status]).toEqual([path, status]);
  }
});
