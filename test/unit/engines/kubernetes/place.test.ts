import { expect } from "vitest";
import type { Asked } from "../../../support/kubernetes/played-api.ts";
import { PlayedPlace } from "../../../support/kubernetes/played-place.ts";
import { containerState, shownPod } from "../../../support/kubernetes/sample.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const SCHEDULED = { conditions: [{ type: "PodScheduled", status: "True" }] };
const RUNNING = containerState({ running: {} }, { phase: "Running", ...SCHEDULED });
const QUOTA = {
  kind: "Status",
  reason: "Forbidden",
  message: 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2',
};

verifies("kubernetes.ends", "a pod is made with its secret, tells its phases, and its end", async () => {
  const played = await PlayedPlace.open();
  const { seat, told } = played.begin("a");
  expect(seat.placeName).toBe("p-1-a");
  await played.make("a", shownPod("a"));
  await played.tell("MODIFIED", shownPod("a", SCHEDULED));
  await played.tell("MODIFIED", shownPod("a", RUNNING));
  await until("both phases", () => told.join() === "scheduled,pulled");
  await played.tell(
    "MODIFIED",
    shownPod("a", containerState({ terminated: { exitCode: 1, reason: "Error" } }, { phase: "Failed" })),
  );
  expect(await seat.exited).toEqual({ detail: "exit code 1", initFailure: null });
  // What has ended is removed.
  const removed = await played.next();
  expect([removed.method, removed.path]).toEqual(["DELETE", "/api/v1/namespaces/apps/pods/p-1-a"]);
  removed.answer(404, { reason: "NotFound" });
});

verifies("kubernetes.ends", "kill removes the pod, and insists while the API fails", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  await played.make("a", shownPod("a", RUNNING));
  seat.kill();
  (await played.next()).answer(500, {});
  const again = await played.nextInTime();
  expect(again.body).toMatchObject({ gracePeriodSeconds: 1 });
  again.answer(200, {});
  await played.tell("DELETED", shownPod("a", RUNNING));
  expect((await seat.exited).detail).toBe("ended");
});

verifies("kubernetes.ends", "one that is killed while it is being made is removed", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  const made = await played.next();
  seat.kill();
  made.answer(201, shownPod("a"));
  (await played.next()).answer(201, {});
  const removed = await played.next();
  expect(removed.method).toBe("DELETE");
  removed.answer(404, { reason: "NotFound" });
  await seat.exited;
});

verifies(
  "kubernetes.ends",
  "a pod whose making was answered by nobody is found, not made twice",
  async () => {
    const played = await PlayedPlace.open();
    const { seat } = played.begin("a");
    (await played.next()).cut();
    await until("the obstacle", () => seat.obstacle() !== null);
    expect(seat.obstacle()).toContain("the Kubernetes API cannot be reached");
    (await played.nextInTime()).answer(409, { reason: "AlreadyExists" });
    const looked = await played.next();
    expect([looked.method, looked.path]).toEqual(["GET", "/api/v1/namespaces/apps/pods/p-1-a"]);
    looked.answer(200, shownPod("a"));
    const secret = await played.next();
    expect(secret.body).toMatchObject({ metadata: { ownerReferences: [{ kind: "Pod", uid: "uid-a" }] } });
    secret.answer(201, {});
    await until("no obstacle", () => seat.obstacle() === null);
  },
);

verifies("kubernetes.ends", "one that was deleted before it had its secret is not made again", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  (await played.next()).answer(201, shownPod("a"));
  (await played.next()).answer(403, QUOTA);
  await until("the reason", () => seat.obstacle()?.includes("exceeded quota") === true);
  await played.tell("ADDED", shownPod("a"));
  await played.tell("DELETED", shownPod("a"));
  expect((await seat.exited).detail).toBe("its pod was deleted");
  played.begin("b");
  const next = await played.nextInTime();
  expect(next.body).toMatchObject({ metadata: { name: "p-1-b" } });
});

verifies("kubernetes.ends", "what the cluster refuses for good is told with its words", async () => {
  const played = await PlayedPlace.open();
  const { seat, told } = played.begin("a");
  (await played.next()).answer(422, { reason: "Invalid", message: "spec.tolerations: Invalid value" });
  const { detail, initFailure } = await seat.exited;
  expect(detail).toBe("spec.tolerations: Invalid value");
  expect(initFailure?.message).toContain("Kubernetes refused its pod");
  expect(told).toEqual(["error: spec.tolerations: Invalid value"]);
  (await played.next()).answer(404, {});
});

verifies("kubernetes.quota", "a used-up quota is asked for by one at a time, each in its turn", async () => {
  const played = await PlayedPlace.open();
  const { seat: first } = played.begin("a");
  (await played.next()).answer(403, QUOTA);
  await until("the reason", () => first.obstacle()?.includes("exceeded quota") === true);
  const { seat: second } = played.begin("b");
  const seatOf = ({ body }: Asked): string =>
    (body as { metadata: { labels: Record<string, string> } }).metadata.labels["millrace.dev/seat"] ?? "";
  const turns: string[] = [];
  for (let turn = 0; turn < 4; turn += 1) {
    const asked = await played.nextInTime();
    turns.push(seatOf(asked));
    asked.answer(403, QUOTA);
  }
  // Nobody is asked for twice before the other was.
  expect(turns.toSorted()).toEqual(["a", "a", "b", "b"]);
  const last = await played.nextInTime();
  last.answer(201, shownPod(seatOf(last)));
  (await played.next()).answer(201, {});
  await played.make("the other", shownPod(seatOf(last) === "a" ? "b" : "a"));
  await until("room", () => first.obstacle() === null && second.obstacle() === null);
});

verifies(
  "kubernetes.outage",
  "a cut watch ends no seat; one that is missing in a new list is gone",
  async () => {
    const played = await PlayedPlace.open();
    const { seat: stays } = played.begin("a");
    await played.make("a", shownPod("a", RUNNING));
    const { seat: goes } = played.begin("b");
    await played.make("b", shownPod("b", RUNNING));
    await played.cutWatch();
    played.pods = [shownPod("a", RUNNING)];
    await played.expireWatch();
    expect((await goes.exited).detail).toBe("its pod was deleted");
    stays.kill();
    (await played.next()).answer(404, {});
    expect((await stays.exited).detail).toBe("ended");
  },
);

verifies("kubernetes.sweep", "pods of a dead service go, those of a living one stay", async () => {
  const dead = new Set<string>();
  const played = await PlayedPlace.open((nodeId) => !dead.has(nodeId));
  await played.tell("ADDED", shownPod("a", RUNNING, { nodeId: "node-2" }));
  // It goes already: however often one asked, its machine would not hear of it sooner.
  const goes = { nodeId: "node-3", deletionTimestamp: "2026-01-01T00:00:00Z" };
  await played.tell("ADDED", shownPod("a-first", RUNNING, goes));
  await played.tell("ADDED", shownPod("b", RUNNING, { nodeId: "node-3" }));
  const { seat } = played.begin("c");
  await played.make("c", shownPod("c", RUNNING));
  played.clock.skip(20_000);
  dead.add("node-3");
  played.clock.skip(5_000);
  const removed = await played.next();
  expect([removed.method, removed.path]).toEqual(["DELETE", "/api/v1/namespaces/apps/pods/p-1-b"]);
  // Never one that has its name by then.
  expect(removed.body).toMatchObject({ preconditions: { uid: "uid-b" } });
  removed.answer(200, {});
  await played.tell("DELETED", shownPod("b", RUNNING, { nodeId: "node-3" }));
  seat.kill();
  // The next request is that one's: nobody else was touched.
  const last = await played.next();
  expect(last.path).toBe("/api/v1/namespaces/apps/pods/p-1-c");
  last.answer(404, {});
  await seat.exited;
});

verifies("kubernetes.sweep", "the last service to stop removes what dead ones have left", async () => {
  // Either could be taken over, if there was somebody to do it.
  const played = await PlayedPlace.open((nodeId) => nodeId === "node-3", new Set(["a", "b"]));
  await played.expireWatch([
    shownPod("a", RUNNING, { nodeId: "node-2" }),
    shownPod("b", RUNNING, { nodeId: "node-3" }),
  ]);
  played.place.leaveNothing();
  const closing = played.place.close();
  const removed = await played.next();
  expect(removed.path).toBe("/api/v1/namespaces/apps/pods/p-1-a");
  removed.answer(200, {});
  // It would wait for any other.
  await closing;
});

verifies(
  "kubernetes.adopted",
  "pods of a dead service that may be taken over stay until they have ended",
  async () => {
    const played = await PlayedPlace.open(() => false, new Set(["a", "b"]));
    const ofDead = (name: string, status: object) => shownPod(name, status, { nodeId: "node-2" });
    await played.expireWatch(["a", "b", "c"].map((name) => ofDead(name, RUNNING)));
    const { seat, told } = played.adopt("a");
    expect(told).toEqual(["scheduled", "pulled"]);
    const swept = await played.nextInTime();
    expect(swept.path).toBe("/api/v1/namespaces/apps/pods/p-1-c");
    swept.answer(200, {});
    await played.tell("DELETED", ofDead("c", RUNNING));
    const ended = containerState({ terminated: { exitCode: 3, reason: "Error" } }, { phase: "Failed" });
    await played.expireWatch([ofDead("a", RUNNING), ofDead("b", ended)]);
    const next = await played.nextInTime();
    expect(next.path).toBe("/api/v1/namespaces/apps/pods/p-1-b");
    next.answer(200, {});
    await played.tell("DELETED", ofDead("b", ended));
    await played.expireWatch([ofDead("a", RUNNING)]);
    // It ends as one of its own does.
    seat.kill();
    const last = await played.next();
    expect([last.method, last.path]).toEqual(["DELETE", "/api/v1/namespaces/apps/pods/p-1-a"]);
    last.answer(404, {});
    expect((await seat.exited).detail).toBe("ended");
  },
);

verifies(
  "kubernetes.adopted",
  "a pod that is gone is not taken over, and one that is let go is not removed",
  async () => {
    const known = new Set(["b"]);
    const played = await PlayedPlace.open(() => true, known);
    await played.expireWatch([]);
    expect((await played.adopt("a").seat.exited).detail).toBe("its pod was deleted");
    const { seat } = played.begin("b");
    await played.make("b", shownPod("b", RUNNING));
    seat.letGo?.();
    seat.kill();
    expect((await seat.exited).detail).toBe("left to another service");
    await played.expireWatch([shownPod("b", RUNNING)]);
    // Until nobody has it any more, though it has our label.
    known.clear();
    const swept = await played.nextInTime();
    expect(swept.path).toBe("/api/v1/namespaces/apps/pods/p-1-b");
    swept.answer(200, {});
  },
);

verifies("kubernetes.reasons", "why a pod cannot be set up is read from the cluster's events", async () => {
  const played = await PlayedPlace.open();
  const { seat } = played.begin("a");
  const isNotThere = { type: "PodReadyToStartContainers", status: "False" };
  const settingUp = { phase: "Pending", conditions: [...SCHEDULED.conditions, isNotThere] };
  await played.make("a", shownPod("a"));
  await played.tell("MODIFIED", shownPod("a", settingUp));
  const asked = await played.nextInTime();
  expect([asked.method, asked.path]).toEqual(["GET", "/api/v1/namespaces/apps/events"]);
  expect(asked.query.get("fieldSelector")).toBe("involvedObject.name=p-1-a,type=Warning");
  const warning = (reason: string, message: string, second: number) => ({
    reason,
    message,
    lastTimestamp: `2026-11-18T05:00:0${second}Z`,
  });
  const items = [
    warning("FailedMount", "configmap not found", 2),
    warning("FailedMount", "secret not found", 1),
    { reason: 7 },
  ];
  asked.answer(200, { items });
  await until("the reason", () => seat.obstacle() !== null);
  expect(seat.obstacle()).toBe("a volume of its pod cannot be mounted: configmap not found");
  // It moves on; an account that may not read events goes without.
  await played.tell("MODIFIED", shownPod("a", { ...settingUp, phase: "Unknown" }));
  await until("no reason", () => seat.obstacle() === null);
  (await played.nextInTime()).answer(403, { reason: "Forbidden" });
  await played.tell("MODIFIED", shownPod("a", RUNNING));
  played.clock.skip(20_000);
  expect(seat.obstacle()).toBeNull();
});
