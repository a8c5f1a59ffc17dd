import { expect, onTestFinished } from "vitest";
import { KubernetesApi } from "../../../../src/engines/kubernetes/api.ts";
import { refusalOfImagePod, tryWorkerPod } from "../../../../src/engines/kubernetes/try-pods.ts";
import type { TriedPod } from "../../../../src/engines/kubernetes/try-pods.ts";
import { SkippingClock } from "../../../support/clocks.ts";
import { PlayedApi } from "../../../support/kubernetes/played-api.ts";
import { containerState, kubernetesSettings, shownPod } from "../../../support/kubernetes/sample.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const IMAGE = "worker:3.12";

/** Tries a pod of a played cluster that shows it like this, until it is removed. */
async function trial(status: object): Promise<{ pod: unknown; tried: TriedPod }> {
  const made: unknown[] = [];
  const gone: string[] = [];
  const played = await PlayedApi.open((asked) => {
    if (asked.method === "POST") made.push(asked.body);
    if (asked.method === "DELETE") gone.push(asked.path);
    asked.answer(200, shownPod("s", status));
    return true;
  });
  const api = new KubernetesApi(played.access);
  onTestFinished(() => api.close());
  const clock = new SkippingClock();
  const settings = kubernetesSettings({ MILLRACE_KUBERNETES_STORAGE: "volumes" });
  const addresses = ["10.0.0.5:4300"];
  let tried: TriedPod | null = null;
  void tryWorkerPod({ api, settings, python: "3.12.4", addresses, clock }).then((found) => (tried = found));
  await until("it was tried", () => {
    if (tried === null) clock.skip(1_000);
    return tried !== null;
  });
  const { name } = (made[0] as { metadata: { name: string } }).metadata;
  expect([made.length, gone]).toEqual([1, [`/api/v1/namespaces/apps/pods/${name}`]]);
  return { pod: made[0], tried: tried! };
}

verifies("kubernetes.doctor-pod", "a pod like a seat's checks its image, and is removed", async () => {
  const { pod, tried } = await trial(
    containerState({ terminated: { exitCode: 0, reason: "Completed" } }, { phase: "Running" }),
  );
  expect(tried).toEqual({ kind: "fine", image: IMAGE });
  const command = ["python3", "-I", "/opt/millrace/python/millrace_agent", "--check", "10.0.0.5:4300"];
  expect(pod).toMatchObject({
    metadata: { name: expect.stringMatching(/^p-doctor-s-[a-z0-9]{12}$/) as string },
    spec: {
      activeDeadlineSeconds: 120,
      automountServiceAccountToken: false,
      containers: [{ command, image: IMAGE, securityContext: { readOnlyRootFilesystem: true } }],
    },
  });
  // It has neither an order nor storage, and no service takes it for one of its own.
  expect(JSON.stringify(pod)).not.toMatch(/"secret"|persistentVolumeClaim|ownerReferences/);
});

verifies("kubernetes.doctor-pod", "what the pod says is told, and so is that it did not start", async () => {
  const message = "the image's Python 3.12 lacks a module: No module named 'json'";
  const terminated = { exitCode: 1, reason: "Error", message };
  const failed = await trial(containerState({ terminated }, { phase: "Failed" }));
  expect(failed.tried).toEqual({ kind: "wrong", image: IMAGE, why: `exit code 1: ${message}` });
  const waiting = { reason: "ErrImagePull", message: "not found" };
  const late = await trial(containerState({ waiting }, { phase: "Pending" }));
  const why = "no pod of it has ended within 60 s: its image cannot be pulled: not found";
  expect(late.tried).toEqual({ kind: "late", image: IMAGE, why });
});

verifies("kubernetes.doctor-pod", "a cluster that refuses the pod is quoted", async () => {
  const message = 'pods "p-doctor" is forbidden: exceeded quota: few';
  const played = await PlayedApi.open((asked) => {
    asked.answer(403, { reason: "Forbidden", message });
    return true;
  });
  const api = new KubernetesApi(played.access);
  onTestFinished(() => api.close());
  const trial = { api, settings: kubernetesSettings(), python: "3.12.4", addresses: [] };
  expect(await tryWorkerPod({ ...trial, clock: new SkippingClock() })).toEqual({
    kind: "wrong",
    image: IMAGE,
    why: `the cluster refused it: ${message}`,
  });
});

verifies("buildkit.apart", "the cluster is asked for such a pod, which it does not make", async () => {
  const played = await PlayedApi.open();
  const api = new KubernetesApi(played.access);
  onTestFinished(() => api.close());
  const settings = kubernetesSettings({ MILLRACE_REGISTRY: "registry.example/millrace" });
  const admitted = refusalOfImagePod(api, settings, "3.12.1");
  const first = await played.next();
  expect([first.method, first.path]).toEqual(["POST", "/api/v1/namespaces/apps/pods"]);
  expect(first.query.get("dryRun")).toBe("All");
  expect(JSON.stringify(first.body)).toContain('"buildkitd"');
  first.answer(201, {});
  expect(await admitted).toBeNull();
  const refused = refusalOfImagePod(api, settings, "3.12.1");
  const message = 'pods "x" is forbidden: violates PodSecurity "restricted:latest"';
  (await played.next()).answer(403, { reason: "Forbidden", message });
  expect(await refused).toBe(message);
});
