import Fastify, { type FastifyRequest } from "fastify";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import { AppError } from "../../../../src/model/errors.ts";
import type { ManagementForwarding } from "../../../../src/management/api/forwarding.ts";
import { mount } from "../../../../src/management/api/mount.ts";
import { tagged } from "../../../../src/management/api/operation.ts";
import { Shares } from "../../../../src/management/api/shares.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

verifies(
  "nodes.moved-change",
  "a change of an app that moves while its body is read waits until the app's place is known, and goes there whole",
  async () => {
    const clock = new HandClock();
    let handled = 0;
    const rollback = tagged("Apps")("POST", "/v2/projects/{project_id}/apps/{app_id}/rollback", {
      id: "rollback",
      summary: "A change",
      access: "any",
      body: z.object({ buildId: z.string() }),
      response: z.object({}),
      handle: async () => {
        handled += 1;
        throw new AppError("app_moved");
      },
    });
    const sent: (string | undefined)[] = [];
    let pauses = 0;
    const forwarding: Pick<ManagementForwarding, "forward" | "pause"> = {
      forward: async (_request, reply, _app, body) => {
        // Its new place is known at the third attempt.
        if (handled < 3) return false;
        sent.push(body?.toString());
        reply.hijack();
        reply.raw.end("there");
        return true;
      },
      pause: async () => void (pauses += 1),
    };
    const app = Fastify();
    onTestFinished(() => app.close());
    app.removeAllContentTypeParsers();
    app.addContentTypeParser(
      "application/json",
      { parseAs: "string" },
      async (request: FastifyRequest, text: string) => {
        if (request.routeOptions.config.keepsBytes) request.bytes = Buffer.from(text);
        return JSON.parse(text) as unknown;
      },
    );
    const person = { sessionId: "s", email: "a@example.com", projectId: null, role: null, roles: new Map() };
    const caller = { accountId: "a", user: null };
    const fairness = { key: "a", weight: 1 };
    mount(app, [rollback], {
      authenticate: async () => ({ ...person, quotas: null, personId: "a", caller, fairness, expiresAt: 1 }),
      audit: { record: () => Promise.resolve() },
      shares: new Shares(clock),
      forwarding: forwarding as ManagementForwarding,
    });
    const url = "/v2/projects/p-one/apps/p-one-app/rollback";
    const headers = { authorization: "a", "content-type": "application/json" };
    const answer = await app.inject({ method: "POST", url, headers, payload: '{"buildId":"b-1"}' });
    expect([answer.body, handled, pauses, sent]).toEqual(["there", 3, 2, ['{"buildId":"b-1"}']]);
  },
);
