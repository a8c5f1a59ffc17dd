import { expect } from "vitest";
import { outboxes } from "../../support/outbox.ts";
import { MODES, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const outbox = outboxes();
const DAY_MS = 86_400_000;
/** More than there are places for all. */
const HOSTS = 300;
const HALF = 128;

verifies(
  "hardening.webhooks",
  "a project with more dead hosts than there are places delays no other, nor itself for ever",
  async () => {
    const [greedy, box] = [await outbox(), await outbox()];
    const dead = await WebhookTarget.open(MODES.hang);
    const alive = await WebhookTarget.open();
    const { port } = new URL(dead.url);
    const urls = Array.from({ length: HOSTS }, (_, host) => `http://h${host}.example.com:${port}/`);
    await Promise.all(urls.map((url) => greedy.add(url)));
    const deliverer = greedy.deliverer({ deadlineMs: DAY_MS, resolve: async () => ["127.0.0.1"] });
    await dead.has(HALF);
    await box.add(alive.url, 100);
    deliverer.wake();
    await box.count("delivered", 100);
    // None of the attempts is over, and the project has no more than its half.
    expect(dead.received).toHaveLength(HALF);
    // As they end, the project's others have their turn.
    dead.behave = MODES.ok;
    greedy.clock.skip(DAY_MS);
    await dead.has(HOSTS);
  },
);
