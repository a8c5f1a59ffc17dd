import { expect } from "vitest";
import type { Feeds } from "../../../src/gateway/events/feeds.ts";
import { RunHandler } from "../../../src/gateway/run-route.ts";
import { AppError } from "../../../src/model/errors.ts";
import { type LookupParts, RunLookup } from "../../../src/runs/lookup.ts";
import { sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

type HandlerParts = ConstructorParameters<typeof RunHandler>[0];
type RunRequest = Parameters<RunHandler["handle"]>[0];

const app = { number: 1, projectId: "p-1", name: "app" };
const run = sampleRun({ appNumber: 1, accountId: "sa-1", user: "ada" });
const full = new AppError("too_many_requests");

/** A handler for that end user's token: everything that depends on the run is full. */
function handlerFor(user: string, lookup: RunLookup | null): RunHandler {
  const limits = { streamStallTimeoutSeconds: 60 };
  const live = { app, version: { config: { deployment: { sse: "auto" }, limits } } };
  const principal = { role: "call", caller: { accountId: "sa-1", user } };
  const feeds: Pick<Feeds, "known" | "requireRoom"> = {
    known: () => ({ run }) as ReturnType<Feeds["known"]>,
    requireRoom: () => {
      throw full;
    },
  };
  return new RunHandler({
    catalog: { find: () => live },
    authenticator: { admit: () => ({ principal }), hold: () => {} },
    bodyRoom: {
      forAnswer: () => () => {
        throw full;
      },
    },
    feeds,
    lookup,
    passing: null,
  } as unknown as HandlerParts);
}

const ask = async (handler: RunHandler, action: "events" | "result"): Promise<void> => {
  const route = { kind: "run", projectId: "p-1", appName: "app", runId: run.id, action };
  const head = { lastEventId: null, acceptEncoding: null, prefer: null };
  await handler.handle({ exchange: { request: { method: "GET" } }, head, route } as unknown as RunRequest);
};

verifies("call.own-runs", "another's run with as many readers as it may have is 404, not 429", async () => {
  await expect(ask(handlerFor("grace", null), "events")).rejects.toMatchObject({ code: "run_not_found" });
  await expect(ask(handlerFor("ada", null), "events")).rejects.toBe(full);
});

verifies("call.own-runs", "nothing is read of another's result, and no room is asked for it", async () => {
  let reads = 0;
  const parts = {
    executor: { find: () => undefined },
    journal: { find: () => null },
    store: {
      runs: { find: () => Promise.resolve(run) },
      payloads: {
        find: () => {
          reads += 1;
          return Promise.resolve(null);
        },
      },
    },
  };
  const lookup = new RunLookup(parts as unknown as LookupParts);
  await expect(ask(handlerFor("grace", lookup), "result")).rejects.toMatchObject({ code: "run_not_found" });
  expect(reads).toBe(0);
  await expect(ask(handlerFor("ada", lookup), "result")).rejects.toBe(full);
  expect(reads).toBe(1);
});
