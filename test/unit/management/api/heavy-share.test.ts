import { EventEmitter } from "node:events";
import Fastify from "fastify";
import type { FastifyReply } from "fastify";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import { mount } from "../../../../src/management/api/mount.ts";
import { tagged } from "../../../../src/management/api/operation.ts";
import { Shares } from "../../../../src/management/api/shares.ts";
import { HandClock } from "../../../support/clocks.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { Condition } from "../../../../src/kit/concurrency.ts";

/** A service of one heavy read, whose answers nobody takes before the test says so. */
function heavySite() {
  const news = new Condition();
  const begun: string[] = [];
  const known: string[] = [];
  const taken = Promise.withResolvers<void>();
  const figures = tagged("Figures")("GET", "/v2/projects/{project_id}/figures", {
    id: "figures",
    summary: "A heavy read",
    access: "any",
    isHeavy: () => true,
    response: z.object({}),
    handle: async ({ params }) => {
      begun.push(params.project_id);
      return {};
    },
  });
  const app = Fastify();
  app.addHook("onSend", async ({ params }) => {
    known.push((params as { project_id: string }).project_id);
    news.notify();
    await taken.promise;
  });
  const authenticate = async (personId: string | null) => {
    const person = { sessionId: "s", email: "a@example.com", projectId: null, role: null, roles: new Map() };
    const id = personId ?? "";
    const fairness = { key: id, weight: 1 };
    return {
      ...person,
      quotas: null,
      personId: id,
      caller: { accountId: id, user: null },
      fairness,
      expiresAt: 1,
    };
  };
  const audit = { record: () => Promise.resolve() };
  mount(app, [figures], { authenticate, audit, shares: new Shares(new HandClock()) });
  onTestFinished(async () => {
    taken.resolve();
    await app.close();
  });
  const ask = async (person: string, project: string): Promise<number> => {
    const url = `/v2/projects/${project}/figures`;
    return (await app.inject({ url, headers: { authorization: person } })).statusCode;
  };
  const reach = (projects: string): Promise<void> =>
    until(`the answers for ${projects} are known`, () => known.toSorted().join("") === projects, news);
  return { ask, begun, reach, take: taken.resolve };
}

verifies("shares.heavy", "answers that are taken slowly keep nobody else from the thread", async () => {
  const { ask, begun, reach, take } = heavySite();
  const slow = ["a", "b"].map((project) => ask("slow", project));
  await reach("ab");
  const others = [ask("other", "c")];
  await reach("abc");
  slow.push(ask("slow", "a"), ask("slow", "b"), ask("slow", "d"));
  await reach("aabbc");
  others.push(ask("other", "a"));
  await reach("aaabbc");
  // Nobody has more than four unread.
  expect(begun).not.toContain("d");
  take();
  expect(await Promise.all([...slow, ...others])).toEqual(Array(7).fill(200));
});

verifies("shares.heavy", "a read that nobody waits for any more has its place until it is done", async () => {
  const shares = new Shares(new HandClock());
  const enter = async (project: string) => {
    const raw = Object.assign(new EventEmitter(), { destroyed: false });
    const reply = { raw } as unknown as FastifyReply;
    return { raw, turn: await shares.take(reply, "heavy", { token: project, project }) };
  };
  const read = Promise.withResolvers<void>();
  const abandoned = await Promise.all(["a", "b"].map(enter));
  const reads = abandoned.map(({ turn }) => turn(() => read.promise));
  for (const { raw } of abandoned) raw.emit("close");
  let isIn = false;
  const third = enter("c").then((entered) => {
    isIn = true;
    return entered;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isIn).toBe(false);
  read.resolve();
  await Promise.all([...reads, third]);
  // Who leaves before the work has begun takes no place.
  const early = await enter("d");
  early.raw.emit("close");
  await enter("d");
});
