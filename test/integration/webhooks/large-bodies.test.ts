import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import { largeFolder } from "../../support/blobs/large-folder.ts";
import { outboxes } from "../../support/outbox.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const outbox = outboxes();

/** A delivery whose body lies in a blob, and what is needed to send it. */
async function site() {
  const folder = await largeFolder();
  const box = await outbox();
  const large = folder.large(box);
  const target = await WebhookTarget.open();
  const body = randomBytes(2_000_000);
  const bodyBlob = await large.put(body);
  const [delivery] = await box.add(target.url, 1, { body: null, bodyBlob });
  return { ...folder, large, box, target, body, bodyBlob, id: delivery!.id };
}

verifies("payloads.blob.away", "a webhook waits for its body without using up attempts", async () => {
  const { box, large, target, body, id, goAway, comeBack } = await site();
  await goAway();
  const [small] = await box.add(target.url);
  const { nextAt } = await box.find(id);
  box.deliverer({ large });
  await box.became(id, "is put off", (delivery) => delivery.nextAt! > nextAt!);
  await box.became(small!.id, "is sent meanwhile", ({ state }) => state === "delivered");
  expect(await box.find(id)).toMatchObject({ state: "pending", attempts: 0 });
  await comeBack();
  // Time passes only until it is due: more would end the attempt.
  await box.became(id, "is sent", (delivery) => {
    if (delivery.nextAt !== null && delivery.nextAt > box.clock.now()) box.clock.skip(10_000);
    return delivery.state === "delivered";
  });
  expect((await box.find(id)).attempts).toBe(1);
  expect(target.received.filter((each) => each.body.equals(body))).toHaveLength(1);
});

verifies("payloads.blob.gone", "a webhook whose body is gone is not sent, and says so", async () => {
  const { box, blobs, large, target, bodyBlob, id } = await site();
  await blobs.remove(bodyBlob.hash);
  box.deliverer({ large });
  await box.became(id, "is given up", ({ state }) => state === "failed", 86_400_000);
  const attempts = await box.store.deliveries.attempts(id);
  expect(new Set(attempts.map(({ error }) => error))).toEqual(new Set(["body_lost"]));
  expect(target.received).toEqual([]);
});
