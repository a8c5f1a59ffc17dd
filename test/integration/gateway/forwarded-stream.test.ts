import { expect, test } from "vitest";
import { RUNS_MAIN } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService(
  {
    app: { main: RUNS_MAIN },
    nothing: { main: RUNS_MAIN, toml: '[deployment]\nrecord_payloads = "none"\n' },
    short: { main: RUNS_MAIN, toml: "[limits]\nmax_transcript = '64KiB'\n" },
  },
  { webhookAllow: "127.0.0.0/8" },
);

function forwarded(target: WebhookTarget, app: string, functionName: string, body: object): StreamReader {
  const suffix = `?webhookEndpoint=${encodeURIComponent(`${target.url}/${functionName}`)}`;
  return openStream(service(), app, body, { functionName, suffix });
}

for (const app of ["app", "nothing"]) {
  test(`what a sync stream gave is forwarded whole, as its caller got it (${app})`, async () => {
    const target = await WebhookTarget.open();
    const calls = [
      forwarded(target, app, "values", {}),
      forwarded(target, app, "broken", { upto: 3 }),
      forwarded(target, app, "count", { upto: 5_000, size: 100 }),
    ];
    for (const reader of calls) await reader.ended();
    await target.has(calls.length);
    for (const reader of calls) {
      const received = target.received.find(({ headers }) => headers["x-request-id"] === reader.runId);
      expect(received?.body.toString()).toBe(reader.text);
      expect(received?.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    }
  });
}

verifies(
  "stream.max-transcript",
  "past max_transcript a forwarded run fails, for its caller too",
  async () => {
    const target = await WebhookTarget.open();
    const reader = forwarded(target, "short", "count", { upto: 1_000, size: 200 });
    await reader.ended();
    const last = reader.messages.at(-1);
    expect([reader.isWhole, last?.event]).toEqual([false, "error"]);
    expect(JSON.parse(last?.data ?? "")).toMatchObject({ code: "result_too_large" });
    await target.has(1);
    expect(target.received[0]?.headers["x-millrace-run-status"]).toBe("500");
    expect(target.received[0]?.body.toString()).toContain("result_too_large");
    const { json } = await service().ofRun("short", reader.runId);
    expect(json).toMatchObject({ status: "failure", statusCode: 500, error: { code: "result_too_large" } });
  },
);
