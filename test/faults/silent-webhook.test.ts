import { expect, onTestFinished, test } from "vitest";
import { AddressRanges } from "../../src/kit/address-ranges.ts";
import { Sender } from "../../src/runs/webhooks/attempt.ts";
import { MODES, WebhookTarget } from "../support/webhook-target.ts";

test("a target that does not answer, or never ends its answer, costs 15 s and no more than 16", async () => {
  const sender = new Sender({ allow: new AddressRanges(["127.0.0.0/8"]) });
  onTestFinished(() => sender.close());
  const attempts = [MODES.hang, MODES.drip].map(async (mode) => {
    const target = await WebhookTarget.open(mode);
    const started = performance.now();
    const posting = { url: new URL(target.url), headers: {}, body: Buffer.from("{}") };
    const answer = await sender.send(posting, new AbortController().signal);
    expect(answer?.error).toBe("timed_out");
    return performance.now() - started;
  });
  for (const tookMs of await Promise.all(attempts)) {
    expect(tookMs).toBeGreaterThan(14_900);
    expect(tookMs).toBeLessThan(16_000);
  }
});
