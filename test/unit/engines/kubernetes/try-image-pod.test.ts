import { expect, onTestFinished } from "vitest";
import { KubernetesApi } from "../../../../src/engines/kubernetes/api.ts";
import { refusalOfImagePod } from "../../../../src/engines/kubernetes/try-image-pod.ts";
import { PlayedApi } from "../../../support/kubernetes/played-api.ts";
import { kubernetesSettings } from "../../../support/kubernetes/sample.ts";
import { verifies } from "../../../verifies.ts";

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
