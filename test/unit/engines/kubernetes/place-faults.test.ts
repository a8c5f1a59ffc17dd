import { expect, test } from "vitest";
import { POD_MOVES } from "../../../../src/engines/kubernetes/pod-seat.ts";
import { PlayedPlace } from "../../../support/kubernetes/played-place.ts";
import { containerState, shownPod } from "../../../support/kubernetes/sample.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const RUNNING = containerState({ running: {} }, { phase: "Running" });
const POD_A = "/api/v1/namespaces/apps/pods/p-1-a";

test("a pod that was killed or has ended is not made again, and whatever the cluster has is removed", () => {
  const removed = ["removing", "gone"];
  for (const state of ["unwanted", "removing", "ended"] as const)
    for (const next of Object.values(POD_MOVES[state])) expect(removed).toContain(next);
  // Only the cluster, or another service, ends the removal.
  for (const state of ["removing", "ended"] as const)
    expect(Object.keys(POD_MOVES[state]).toSorted()).toEqual(["letGo", "vanish"]);
  expect(POD_MOVES.gone).toEqual({});
});

verifies("kubernetes.outage", "a list that began before a pod was made ends nothing of it", async () => {
  const played = await PlayedPlace.open();
  const { told } = played.begin("a");
  const made = await played.next();
  await played.expireWatch([]);
  made.answer(201, shownPod("a"));
  (await played.next()).answer(201, {});
  await played.tell("MODIFIED", shownPod("a", RUNNING));
  await until("it is heard of", () => told.includes("pulled"));
});

verifies("kubernetes.ends", "one that may have been made is removed when nobody wants it", async () => {
  const played = await PlayedPlace.open();
  const { seat: waiting } = played.begin("a");
  (await played.next()).cut();
  await until("it waits", () => waiting.obstacle() !== null);
  waiting.kill();
  const removed = await played.next();
  expect([removed.method, removed.path]).toEqual(["DELETE", POD_A]);
  removed.answer(404, {});
  await waiting.exited;

  const { seat: asked } = played.begin("b");
  const made = await played.nextInTime();
  expect(made.method).toBe("POST");
  asked.kill();
  made.cut();
  const gone = await played.nextInTime();
  expect([gone.method, gone.path.endsWith("p-1-b")]).toEqual(["DELETE", true]);
  gone.answer(404, {});
  await asked.exited;
});

verifies("kubernetes.ends", "a token that is renewed just now fails no pod", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  (await played.next()).answer(401, { reason: "Unauthorized", message: "Unauthorized" });
  const again = await played.nextInTime();
  expect([again.method, seat.obstacle()]).toEqual(["POST", "Unauthorized"]);
});

verifies("kubernetes.quota", "a namespace that has no account yet fails no pod", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  const message =
    'pods "x" is forbidden: error looking up service account apps/default: serviceaccount "default" not found';
  (await played.next()).answer(403, { reason: "Forbidden", message });
  const again = await played.nextInTime();
  expect([again.method, seat.obstacle()]).toEqual(["POST", message]);
});

verifies("kubernetes.reasons", "why a pod waits is told, also if its secret is made later", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  (await played.next()).answer(201, shownPod("a"));
  const secret = await played.next();
  const why = { reason: "Unschedulable", message: "0/2 nodes are available" };
  const conditions = [{ type: "PodScheduled", status: "False", ...why }];
  await played.tell("MODIFIED", shownPod("a", { phase: "Pending", conditions }));
  await until("it is told", () => seat.obstacle()?.includes("0/2 nodes") === true);
  secret.answer(201, {});
  const { seat: next } = played.begin("b");
  await played.make("b", shownPod("b"));
  expect([seat.obstacle(), next.obstacle()]).toEqual([expect.stringContaining("0/2 nodes"), null]);
});

verifies("kubernetes.ends", "what is being removed when the service stops is waited for", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  await played.make("a", shownPod("a", RUNNING));
  seat.kill();
  const first = await played.next();
  const closing = played.place.close();
  first.answer(500, {});
  (await played.nextInTime()).answer(200, {});
  await played.tell("DELETED", shownPod("a", RUNNING));
  await closing;
  expect((await seat.exited).detail).toBe("ended");
});

verifies(
  "kubernetes.sweep",
  "what owns the pods is made again when a pod was deleted by others",
  async () => {
    const played = await PlayedPlace.open();
    const { seat } = played.begin("a");
    await played.make("a", shownPod("a", RUNNING));
    const before = played.preparations;
    played.isPreparable = false;
    await played.tell("DELETED", shownPod("a", RUNNING));
    expect((await seat.exited).detail).toBe("its pod was deleted");
    const { seat: next } = played.begin("b");
    await until("it is not there", () => next.obstacle() !== null);
    expect(played.preparations).toBe(before + 1);
    played.isPreparable = true;
    const made = await played.nextInTime();
    expect(made.body).toMatchObject({ metadata: { name: "p-1-b" } });
  },
);

verifies("kubernetes.adopted", "one that is taken over while it is looked up stays", async () => {
  const looked = Promise.withResolvers<ReadonlySet<string>>();
  let isLooking = false;
  const played = await PlayedPlace.open(
    () => false,
    async () => {
      isLooking = true;
      return await looked.promise;
    },
  );
  await played.expireWatch([shownPod("a", RUNNING, { nodeId: "node-2" })]);
  played.clock.skip(5_000);
  await until("it is looked up", () => isLooking);
  const { seat } = played.adopt("a");
  looked.resolve(new Set());
  await new Promise((resolve) => setImmediate(resolve));
  played.begin("b");
  const next = await played.next();
  expect([next.method, next.body]).toMatchObject(["POST", { metadata: { name: "p-1-b" } }]);
  expect(seat.obstacle()).toBeNull();
});

verifies("kubernetes.adopted", "one that was let go is removed when nobody has it", async () => {
  const played = await PlayedPlace.open();
  const { seat, told } = played.begin("a");
  await played.make("a", shownPod("a"));
  await played.tell("MODIFIED", shownPod("a", RUNNING));
  await until("it is heard of", () => told.includes("pulled"));
  seat.letGo?.();
  const swept = await played.nextInTime();
  expect([swept.method, swept.path]).toEqual(["DELETE", POD_A]);
  swept.answer(404, {});
});
