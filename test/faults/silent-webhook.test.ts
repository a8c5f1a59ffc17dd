import { expect, onTestFinished, test } from "vitest";
import { AddressRanges } from "../../src/kit/address-ranges.ts";
import { Sender } from "../../src/runs/webhooks/attempt.ts";
import { HandClock } from "../support/clocks.ts";
import { MODES, WebhookTarget } from "../support/webhook-target.ts";

test.each(["hang", "drip"] as const)(
  "a target that answers by %s costs 15 s, no less and no more",
  async (mode) => {
    const clock = new HandClock();
    const sender = new Sender({ allow: new AddressRanges(["127.0.0.0/8"]), clock });
    onTestFinished(() => sender.close());
    const target = await WebhookTarget.open(MODES[mode]);
    const posting = { url: new URL(target.url), headers: {}, body: Buffer.from("{}") };
    const sending = sender.send(posting, new AbortController().signal);
    await target.has(1);
    clock.advance(14_999);
    // It still means to wait: nothing was due so far.
    expect(clock.pending).toBe(1);
    clock.advance(1);
    expect(await sending).toMatchObject({ error: "timed_out" });
    expect(clock.pending).toBe(0);
  },
);
