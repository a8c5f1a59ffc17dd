import { expect } from "vitest";
import { exitOf, readPod } from "../../../../src/engines/kubernetes/pod-state.ts";
import { containerState, shownPod } from "../../../support/kubernetes/sample.ts";
import { verifies } from "../../../verifies.ts";

const LIMITS = { memoryBytes: 1e9, cpus: null, cpuShare: 1 };
const obstacle = (status: object): string | null | undefined => readPod(shownPod("s", status))?.obstacle;
const detail = (status: object): string | undefined => {
  const end = readPod(shownPod("s", status))?.end;
  return end ? exitOf(end, LIMITS).detail : undefined;
};

verifies("kubernetes.reasons", "what keeps a pod from starting", () => {
  const message = "0/2 nodes are available: 2 Insufficient memory.";
  const unscheduled = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
  expect(obstacle({ phase: "Pending", conditions: [unscheduled] })).toBe(
    `its pod has no machine yet: ${message}`,
  );
  const waiting = (reason: string, text = "why") =>
    obstacle(containerState({ waiting: { reason, message: text } }, { phase: "Pending" }));
  expect(waiting("ImagePullBackOff")).toBe("its image cannot be pulled: why");
  expect(waiting("CreateContainerConfigError")).toBe("its container cannot be set up: why");
  expect(waiting("SomethingNew")).toBe("its container waits (SomethingNew): why");
  expect(waiting("ImagePullBackOff", "x".repeat(5_000))).toHaveLength(500);
  expect(obstacle(containerState({ waiting: { reason: "ContainerCreating" } }))).toBeNull();
  expect(obstacle({})).toBeNull();
});

verifies("kubernetes.reasons", "how a pod ended", () => {
  const ended = (terminated: object, more: object = {}) =>
    detail(containerState({ terminated }, { phase: "Failed", ...more }));
  expect(ended({ exitCode: 3, reason: "Error" })).toBe("exit code 3");
  expect(ended({ exitCode: 137, reason: "Error" })).toBe("killed by SIGKILL");
  expect(ended({ exitCode: 137, reason: "OOMKilled" })).toBe("it used more than its memory = 1 GB");
  expect(ended({ exitCode: 128, reason: "StartError", message: "no such file" })).toBe(
    "its container could not start: no such file",
  );
  const evicted = { reason: "Evicted", message: "The node was low on resource: memory." };
  expect(ended({ exitCode: 137, reason: "Error" }, evicted)).toBe(
    `evicted by the cluster: ${evicted.message}`,
  );
  expect(detail({ phase: "Failed" })).toBe("its pod ended as Failed");
  const oom = readPod(
    shownPod(
      "s",
      containerState({ terminated: { exitCode: 137, reason: "OOMKilled" } }, { phase: "Failed" }),
    ),
  );
  expect(oom?.end && exitOf(oom.end, LIMITS).isOutOfMemory).toBe(true);
});

verifies(
  "kubernetes.reasons",
  "a machine that is not ready is no end, and neither is a pod that is asked to go",
  () => {
    const conditions = [
      { type: "Ready", status: "False", reason: "NodeNotReady" },
      { type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager" },
    ];
    const status = containerState({ running: {} }, { phase: "Running", conditions });
    expect(readPod(shownPod("s", status))).toMatchObject({ end: null, hasStarted: true, obstacle: null });
  },
);

verifies("kubernetes.reasons", "of several containers the agent's own counts", () => {
  const beside = { name: "mesh-proxy", state: { running: {} } };
  const ended = { name: "seat", state: { terminated: { exitCode: 137, reason: "OOMKilled" } } };
  const running = { name: "seat", state: { running: {} } };
  const crashed = { name: "mesh-proxy", state: { terminated: { exitCode: 1, reason: "Error" } } };
  const seen = (...containerStatuses: object[]) =>
    readPod(shownPod("s", { phase: "Running", containerStatuses }));
  expect(seen(beside, ended)?.end).toEqual({ kind: "memory" });
  expect(seen(crashed, running)).toMatchObject({ end: null, hasStarted: true, obstacle: null });
  expect(seen(beside)).toMatchObject({ end: null, hasStarted: false });
});

verifies("kubernetes.reasons", "what is no pod of ours is passed over", () => {
  const good = shownPod("s") as { metadata: { labels: object } };
  expect(readPod(good)).toMatchObject({ name: "p-1-s", seatId: "s", nodeId: "node-1" });
  const bad: unknown[] = [null, 7, {}, { ...good, metadata: { ...good.metadata, labels: {} } }];
  bad.push(shownPod("s", { conditions: "many" }), shownPod("x".repeat(300)));
  for (const object of bad) expect(readPod(object)).toBeNull();
});

verifies("pod-builds.reuse", "the digest of an image, once the cluster tells it", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const imageOf = (imageID?: string) =>
    readPod(shownPod("s", { containerStatuses: [{ name: "seat", state: { running: {} }, imageID }] }))?.image;
  const named = `registry.example:5000/worker@${digest}`;
  expect([imageOf(named), imageOf(`docker-pullable://${named}`)]).toEqual([named, named]);
  expect(imageOf(digest)).toBe(digest);
  for (const none of ["", undefined, "worker:3.12", `a b@${digest}`]) expect(imageOf(none)).toBeNull();
});

verifies("kubernetes.reasons", "what keeps the container from starting that comes before the app's", () => {
  const waiting = { reason: "ErrImagePull", message: "not found" };
  const status = {
    initContainerStatuses: [{ name: "agent", state: { waiting } }],
    containerStatuses: [{ name: "seat", state: { waiting: { reason: "PodInitializing" } } }],
  };
  expect(obstacle(status)).toBe("its image cannot be pulled: not found");
});

verifies("buildkit.reasons", "what BuildKit said last is why its pod does not start", () => {
  const waiting = { reason: "CrashLoopBackOff", message: "back-off 10s restarting failed container" };
  const message = "rootlesskit: fork/exec /proc/self/exe: operation not permitted\n";
  const lastState = {
    terminated: { exitCode: 1, reason: "Error", message: `${"x".repeat(600)} ${message}` },
  };
  const crashing = obstacle({
    initContainerStatuses: [{ name: "buildkitd", state: { waiting }, lastState }],
  });
  expect(crashing).toMatch(
    /^a container of its pod crashes repeatedly: …x+ rootlesskit: .*operation not permitted$/,
  );
  expect(crashing?.length).toBeLessThanOrEqual(500);
});

verifies("buildkit.reasons", "if BuildKit ends under its agent, the build is lost, and why is told", () => {
  const startedAt = "2026-11-18T05:00:10Z";
  const ended = (terminated: object, state: object = { running: {} }) =>
    detail({
      phase: "Running",
      containerStatuses: [{ name: "seat", state: { running: { startedAt } } }],
      initContainerStatuses: [
        { name: "buildctl", state: { terminated: { exitCode: 0, finishedAt: "2026-11-18T05:00:01Z" } } },
        { name: "buildkitd", state, lastState: { terminated } },
      ],
    });
  const later = { exitCode: 137, reason: "Error", finishedAt: "2026-11-18T05:00:11Z" };
  expect(ended(later)).toBe("BuildKit ended (killed by SIGKILL)");
  expect(ended({ ...later, exitCode: 1, message: "no space left" })).toBe(
    "BuildKit ended (exit code 1): no space left",
  );
  expect(ended({ ...later, reason: "OOMKilled" })).toBe("it used more than its memory = 1 GB");
  expect(ended(later, { terminated: later })).toBe("BuildKit ended (killed by SIGKILL)");
  // It took a few tries to start.
  expect(ended({ ...later, finishedAt: "2026-11-18T05:00:09Z" })).toBeUndefined();
});

verifies(
  "kubernetes.last-words",
  "what a container printed last says why it ended, on one clean line",
  () => {
    const traceback = `Traceback (most recent call last):
  File "/opt/millrace/python/millrace_agent/__main__.py", line 8, in <module>
\u001b[31mModuleNotFoundError: No module named 'json'\u001b[0m\u0007
`;
    const ended = (message: string, more: object = {}) =>
      detail(
        containerState(
          { terminated: { exitCode: 1, reason: "Error", message } },
          { phase: "Failed", ...more },
        ),
      );
    expect(ended(traceback)).toBe(
      "exit code 1: Traceback (most recent call last): " +
        'File "/opt/millrace/python/millrace_agent/__main__.py", line 8, in <module> ' +
        "<ESC>[31mModuleNotFoundError: No module named 'json'<ESC>[0m<BEL>",
    );
    const long = ended(`${"x".repeat(9_000)} the end`);
    expect(long).toMatch(/^exit code 1: …x+ the end$/);
    expect(long?.length).toBeLessThanOrEqual(500);
    expect(ended("\u0001".repeat(400))?.length).toBeLessThanOrEqual(500);
    expect(ended("")).toBe("exit code 1");
  },
);

verifies("kubernetes.last-words", "a container that fails before the agent's says why", () => {
  const message = "PermissionError: [Errno 13] Permission denied: '/agent/millrace_agent'";
  const status = {
    phase: "Failed",
    initContainerStatuses: [
      { name: "mesh", state: { terminated: { exitCode: 0 } } },
      { name: "agent", state: { terminated: { exitCode: 1, reason: "Error", message } } },
    ],
    containerStatuses: [{ name: "seat", state: { waiting: { reason: "PodInitializing" } } }],
  };
  expect(detail(status)).toBe(`exit code 1: ${message}`);
});
