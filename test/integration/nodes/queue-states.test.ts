import { expect } from "vitest";
import type { QueueRecord } from "../../../src/shapes/queues.ts";
import { asOwner } from "../../support/as-owner.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, ended, recordOf, submit } from "../async/site.ts";
import { pair } from "./pair.ts";

const nodes = pair({ app: { main: "def run(n=0):\n    return n\n" } });

async function ask(on: TestService, method: string, verb = ""): Promise<QueueRecord> {
  const { projectId } = on.service.owner;
  const url = `/v2/projects/${projectId}/apps/${projectId}-app/queue${verb}`;
  const { token } = nodes.first.service.owner;
  return (await asOwner(on)<{ item: QueueRecord }>(method, url, undefined, token)).item;
}

verifies("queue.nodes", "a queue that one node pauses or drains is so on all", async () => {
  const { owner, other } = await nodes.sides("app");
  const { token } = nodes.first.service.owner;
  expect((await ask(other, "POST", "/pause")).state).toBe("paused");
  const { json } = await other.call("app", { n: 1 }, { ...ASYNC, token });
  expect((await owner.call("app", { n: 2 }, { token })).status).toBe(200);
  const record = async () => await recordOf(nodes.first, "app", json.run_id);
  expect(await record()).toMatchObject({ status: "queued", startedAt: null });
  expect(await ask(owner, "GET")).toMatchObject({ state: "paused", waiting: 1 });
  // As when the app had moved meanwhile: what is written is noticed.
  const { store } = other.service;
  const [place] = await store.appOwners.find([
    { projectId: nodes.first.service.owner.projectId, name: "app" },
  ]);
  await store.queueStates.change({ appNumber: place!.appNumber, state: "draining", now: Date.now() });
  await until("the run that waited has ended", async () => (await record()).status === "success");
  const refused = await owner.call("app", {}, { ...ASYNC, token });
  expect([refused.status, refused.json.code]).toEqual([503, "queue_draining"]);
  await ask(owner, "POST", "/resume");
  expect((await ended(nodes.first, "app", await submit(nodes.first, "app", { n: 3 }))).status).toBe(
    "success",
  );
});
