import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { LARGE_BYTES } from "../../../src/runs/large-payloads.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, cancel, ended, look, submit } from "../../integration/async/site.ts";
import { pair } from "../../integration/nodes/pair.ts";

const MAIN = `
def run(text):
    return text

def make(length):
    return "x" * length
`;
const TEXT = "0123456789abcdef".repeat(LARGE_BYTES / 8);

const nodes = pair({ app: { main: MAIN } }, { webhookAllow: "127.0.0.0/8" });

/** Where the nodes keep large payloads. */
function place(): string {
  const { blobs } = nodes.first.settings;
  if (blobs?.kind !== "directory") throw new Error("the blobs are in no directory");
  return path.join(blobs.path, "payloads");
}

async function payloadOf({ service: { store } }: TestService, id: string) {
  const { number } = nodes.first.apps.get("app")!.app;
  return await store.payloads.find({ appNumber: number, id });
}

verifies(
  "payloads.blob.nodes",
  "what is accepted through one node and run at another is the same everywhere",
  async () => {
    const target = await WebhookTarget.open();
    const { owner, other } = await nodes.sides("app");
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const answer = await other.call("app", { text: TEXT }, { suffix });
    const id: string = answer.json.run_id;
    expect([answer.status, (await ended(other, "app", id)).status]).toEqual([202, "success"]);
    const stored = (await payloadOf(owner, id))!;
    expect(stored).toMatchObject({ input: null, result: null });
    expect(stored.inputBlob!.bytes).toBeGreaterThan(TEXT.length);
    expect(stored.resultBlob!.bytes).toBeGreaterThan(TEXT.length);
    const results = await Promise.all([owner, other].map((node) => look(node, "app", id, "/result")));
    expect(results.map(({ status, json }) => [status, json.result === TEXT])).toEqual([
      [200, true],
      [200, true],
    ]);
    const inputs = await Promise.all([owner, other].map((node) => look(node, "app", id, "/input")));
    expect(inputs.map(({ json }) => json.text === TEXT)).toEqual([true, true]);
    const records = await Promise.all([owner, other].map((node) => look(node, "app", id)));
    expect(records.map(({ json }) => json.result === TEXT)).toEqual([true, true]);
    await target.has(1);
    expect(target.received[0]!.body.toString()).toBe(results[0]!.text);
    const delivery = await owner.service.store.deliveries.find({ ...owner.service.owner, id });
    expect(delivery).toMatchObject({ body: null, bodyBlob: stored.resultBlob });
  },
);

verifies("payloads.blob.away", "large runs are 503 through both nodes, and small ones go on", async () => {
  const { owner, other } = await nodes.sides("app");
  const before = await submit(other, "app", { text: `before${TEXT}` });
  await ended(other, "app", before);
  await rename(place(), `${place()}.away`);
  // Nobody needs its result for this.
  expect((await cancel(other, "app", before)).json.code).toBe("run_finished");
  const made = await submit(other, "app", { length: TEXT.length }, { functionName: "make" });
  const refused = await Promise.all([owner, other].map((node) => node.call("app", { text: TEXT }, ASYNC)));
  expect(refused.map(({ status, json }) => [status, json.error.code])).toEqual([
    [503, "storage_unavailable"],
    [503, "storage_unavailable"],
  ]);
  const small = await submit(other, "app", { text: "small" });
  expect(await ended(other, "app", small)).toMatchObject({ status: "success", result: "small" });
  await rename(`${place()}.away`, place());
  expect(await ended(other, "app", made)).toMatchObject({ status: "success" });
  expect((await look(owner, "app", made, "/result")).json.result).toBe("x".repeat(TEXT.length));
  const again = await submit(other, "app", { text: TEXT });
  expect(await ended(owner, "app", again)).toMatchObject({ status: "success" });
});

verifies("payloads.blob.gone", "a result that is gone is 410, as one that is too old", async () => {
  const { owner, other } = await nodes.sides("app");
  const id = await submit(other, "app", { text: `gone${TEXT}` });
  expect(await ended(other, "app", id)).toMatchObject({ status: "success" });
  const stored = (await payloadOf(owner, id))!;
  for (const { hash } of [stored.inputBlob!, stored.resultBlob!])
    await rm(path.join(place(), "sha256", hash.slice(0, 2), hash));
  for (const view of ["/result", "/input"]) {
    const answer = await look(other, "app", id, view);
    expect([answer.status, answer.json.error.code]).toEqual([410, "payload_not_kept"]);
  }
  await until("its record is there", async () => (await look(owner, "app", id)).json.status === "success");
});
