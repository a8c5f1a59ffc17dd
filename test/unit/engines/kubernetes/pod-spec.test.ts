import { productsFor } from "../../../../src/engines/kubernetes/gpu-products.ts";
import { expect } from "vitest";
import { podName, podOf, podPartsOf, secretOf } from "../../../../src/engines/kubernetes/pod-spec.ts";
import type { PodParts } from "../../../../src/engines/kubernetes/pod-spec.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { readSettings } from "../../../../src/config/settings.ts";
import { WORKLOAD, kubernetesSettings, orderFor } from "../../../support/kubernetes/sample.ts";
import { verifies } from "../../../verifies.ts";

type Pod = {
  metadata: { name: string; labels: Record<string, string>; ownerReferences: object[] };
  spec: Record<string, unknown> & {
    containers: { image: string; env: { name: string }[]; resources: object; securityContext: object }[];
  };
};

function pod(workload: Partial<Workload> = {}, env: Record<string, string> = {}): Pod {
  return podOf(parts(env), "owner-uid", orderFor("s1"), { ...WORKLOAD, ...workload }) as Pod;
}

function parts(env: Record<string, string> = {}): PodParts {
  const settings = kubernetesSettings(env);
  const whose = { installationId: "i1", nodeId: "n1" };
  return podPartsOf(settings, { whose, image: settings.kubernetesImage ?? "", python: "3.11.7" });
}

verifies("kubernetes.walls", "the restricted profile, and nothing of the cluster's in it", () => {
  const { spec, metadata } = pod();
  expect(spec).toMatchObject({
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 8,
    securityContext: { runAsNonRoot: true, runAsUser: 10_001, seccompProfile: { type: "RuntimeDefault" } },
  });
  expect(spec.containers).toHaveLength(1);
  expect(spec.containers[0]?.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  expect(metadata.ownerReferences).toEqual([
    { apiVersion: "v1", kind: "ConfigMap", name: "millrace-i1", uid: "owner-uid" },
  ]);
  expect(spec).not.toHaveProperty("runtimeClassName");
  expect(pod({ containerRuntime: "v2" }).spec["runtimeClassName"]).toBe("gvisor");
});

verifies("kubernetes.no-secrets", "neither variables nor ticket nor ids of the app are in the pod", () => {
  const text = JSON.stringify(pod());
  for (const secret of ["s3cret", "API_KEY", "ticket-of", "BEGIN"]) expect(text).not.toContain(secret);
  const secret = secretOf(parts(), { name: pod().metadata.name, uid: "pod-uid" }, orderFor("s1")) as {
    metadata: { name: string; ownerReferences: object[] };
    stringData: Record<string, string>;
  };
  expect(secret.metadata.name).toBe(pod().metadata.name);
  expect(secret.metadata.ownerReferences).toEqual([
    { apiVersion: "v1", kind: "Pod", name: pod().metadata.name, uid: "pod-uid" },
  ]);
  expect(JSON.parse(secret.stringData["order.json"] ?? "")).toEqual(orderFor("s1"));
});

verifies("kubernetes.resources", "limits as the app names them, requests a part of them", () => {
  const named = { limits: { memoryBytes: 2e9, cpus: 1.5, cpuShare: 1.5 } };
  expect(pod(named).spec.containers[0]?.resources).toEqual({
    limits: { cpu: "1500m", memory: "2000000000" },
    requests: { cpu: "375m", memory: "500000000" },
  });
  const two = { MILLRACE_REPLICAS_PER_SEAT: "2" };
  expect(pod(named, two).spec.containers[0]?.resources).toMatchObject({
    limits: { cpu: "3000m", memory: "4000000000" },
  });
  // What is not named is a share, and no limit.
  expect(pod().spec.containers[0]?.resources).toEqual({ limits: {}, requests: { cpu: "500m" } });
});

verifies("kubernetes.resources", "GPUs, on machines with one of the cards", () => {
  const overrides = { MILLRACE_KUBERNETES_POD: '{"tolerations":[{"key":"spot"}]}' };
  const { spec } = pod(
    { gpus: { models: ["AMPERE_A10", "Tesla T4"], count: 2, memoryBytes: null } },
    overrides,
  );
  expect(spec.containers[0]?.resources).toMatchObject({
    limits: { "nvidia.com/gpu": "2" },
    requests: { "nvidia.com/gpu": "2" },
  });
  const products = ["Tesla-T4", "NVIDIA-A10", "NVIDIA-A10G", "AMPERE_A10"];
  const term = (key: string, values: string[]) => ({ matchExpressions: [{ key, operator: "In", values }] });
  // Either of the terms is enough.
  const nodeSelectorTerms = [
    term("millrace.dev/compute", ["AMPERE_A10", "Tesla-T4"]),
    term("nvidia.com/gpu.product", products),
  ];
  expect(spec["affinity"]).toEqual({
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
  });
  expect(spec["tolerations"]).toEqual([
    { key: "spot" },
    { key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" },
  ]);
});

verifies("kubernetes.resources", "a model's name means the products that NVIDIA's labels have for it", () => {
  const known = (...models: string[]): string[] => productsFor(models).slice(0, -models.length);
  expect(known("H100")).toEqual(["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL"]);
  expect(known("HOPPER_H200")).toEqual(["NVIDIA-H200", "NVIDIA-H200-NVL"]);
  expect(known("A100_40GB")).toEqual([
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-PCIE-40GB",
    "A100-SXM4-40GB",
    "A100-PCIE-40GB",
  ]);
  expect(known("a100")).toHaveLength(7);
  expect(known("RTX 4090")).toEqual(["NVIDIA-GeForce-RTX-4090"]);
  expect(known("V100-32GB")).toHaveLength(3);
  // Of an instance of a GPU, and of a model that is not known, only the name itself is looked for.
  expect(productsFor(["H100-1g.10gb", "NVIDIA B300"])).toEqual(["H100-1g.10gb", "NVIDIA-B300"]);
});

verifies("kubernetes.resources", "with ANY on every machine that has GPUs", () => {
  const { spec } = pod({ gpus: { models: ["T4", "any"], count: 1, memoryBytes: null } });
  expect(spec.containers[0]?.resources).toMatchObject({ limits: { "nvidia.com/gpu": "1" } });
  expect([spec["affinity"], spec["tolerations"]]).toEqual([undefined, expect.anything()]);
});

verifies("kubernetes.image", "the image of the app's Python, else of the service's", () => {
  const image = (workload: Partial<Workload>): string | undefined => pod(workload).spec.containers[0]?.image;
  expect(image({})).toBe("worker:3.11");
  expect(image({ python: { version: "3.12.4", isStrict: false } })).toBe("worker:3.12");
});

verifies("kubernetes.overrides", "what is allowed is added, and ours stays ours", () => {
  const given = {
    labels: { team: "a" },
    annotations: { note: "b" },
    priorityClassName: "low",
    nodeSelector: { pool: "apps" },
  };
  const { spec, metadata } = pod({}, { MILLRACE_KUBERNETES_POD: JSON.stringify(given) });
  expect(spec).toMatchObject({ priorityClassName: "low", nodeSelector: { pool: "apps" } });
  expect(metadata).toMatchObject({
    labels: { team: "a", "millrace.dev/installation": "i1", "millrace.dev/node": "n1" },
    annotations: { note: "b" },
  });
});

verifies(
  "kubernetes.grace",
  "a pod has as long to end as its longest call, or what the operator allows",
  () => {
    const grace = (seconds: number, most?: number): unknown => {
      const overrides = most === undefined ? {} : { terminationGracePeriodSeconds: most };
      const given = { MILLRACE_KUBERNETES_POD: JSON.stringify(overrides) };
      return pod({ graceMs: seconds * 1000 }, given).spec["terminationGracePeriodSeconds"];
    };
    expect([grace(900), grace(900, 60), grace(30, 60)]).toEqual([900, 60, 30]);
  },
);

verifies("kubernetes.overrides", "what would open the walls is refused at the start", () => {
  const refused = [
    { hostNetwork: true },
    { hostPID: true },
    { securityContext: {} },
    { containers: [] },
    { volumes: [] },
    { serviceAccountName: "admin" },
    { automountServiceAccountToken: true },
    { runtimeClassName: "runc" },
    { hostUsers: true },
    { terminationGracePeriodSeconds: 0 },
    { terminationGracePeriodSeconds: "30" },
    { annotations: { "container.apparmor.security.beta.kubernetes.io/seat": "unconfined" } },
    { annotations: { "seccomp.security.alpha.kubernetes.io/pod": "unconfined" } },
    { labels: { "millrace.dev/network": "open" } },
    { labels: { a: 1 } },
    [],
    "no json",
  ];
  for (const given of refused) {
    const text = typeof given === "string" ? given : JSON.stringify(given);
    const read = (): unknown => readSettings({ flags: {}, env: { MILLRACE_KUBERNETES_POD: text } });
    expect(read).toThrow("MILLRACE_KUBERNETES_POD");
  }
  expect(kubernetesSettings({ MILLRACE_KUBERNETES_POD: '{"hostUsers":false}' }).kubernetesPod.spec).toEqual({
    hostUsers: false,
  });
});

verifies("kubernetes.storage", "a claim holds the storage of projects, each sees its own folder", () => {
  const bounded = pod({}, { MILLRACE_MAX_SCRATCH: "1gb" }).spec;
  expect(JSON.stringify(bounded)).toContain('{"name":"storage","emptyDir":{"sizeLimit":"1000000000"}}');
  const text = JSON.stringify(pod({}, { MILLRACE_KUBERNETES_STORAGE: "volumes" }).spec);
  expect(text).toContain('{"name":"storage","persistentVolumeClaim":{"claimName":"volumes"}}');
  expect(text).toContain('{"name":"storage","mountPath":"/persistent-storage","subPath":"p-1"}');
});

verifies(
  "pod-builds.walls",
  "a build sees no storage, reaches what is public, and is one whatever a seat holds",
  () => {
    const env = { MILLRACE_KUBERNETES_STORAGE: "volumes", MILLRACE_REPLICAS_PER_SEAT: "4" };
    const limits = { memoryBytes: 4e9, cpus: null, cpuShare: 1 };
    const { spec, metadata } = pod({ isBuild: true, network: "egress", limits }, env);
    expect(JSON.stringify(spec)).not.toContain("persistentVolumeClaim");
    expect(JSON.stringify(spec)).not.toContain("subPath");
    expect(metadata.labels["millrace.dev/network"]).toBe("egress");
    // It ends though no service is left to end it; an app's pod does not.
    expect([spec["activeDeadlineSeconds"], pod().spec["activeDeadlineSeconds"]]).toEqual([14_400, undefined]);
    expect(spec.containers[0]?.resources).toEqual({
      limits: { memory: "4000000000" },
      requests: { cpu: "250m", memory: "1000000000" },
    });
    expect(spec.containers[0]?.securityContext).toEqual(pod().spec.containers[0]?.securityContext);
  },
);

verifies(
  "pod-builds.image",
  "an image of the app's own gets the agent from the worker image, behind the same walls",
  () => {
    const image = `registry.example/app@sha256:${"a".repeat(64)}`;
    const { spec } = pod({
      image,
      python: { version: "3.12.1", isStrict: false },
      gpus: { models: ["T4"], count: 1, memoryBytes: null },
    });
    const [bringer] = spec["initContainers"] as {
      image: string;
      securityContext: object;
      resources: object;
    }[];
    expect([spec.containers[0]?.image, bringer?.image]).toEqual([image, "worker:3.12"]);
    expect(bringer?.securityContext).toEqual(spec.containers[0]?.securityContext);
    expect(JSON.stringify(bringer?.resources)).not.toContain("nvidia");
    const mounts = (spec.containers[0] as unknown as { volumeMounts: { name: string }[] }).volumeMounts;
    expect(mounts).toContainEqual({ name: "agent", mountPath: "/opt/millrace/python", readOnly: true });
    expect(pod().spec).not.toHaveProperty("initContainers");
    expect(JSON.stringify(pod())).not.toContain('"agent"');
  },
);

verifies("kubernetes.names", "a pod has the names of its project, app and version", () => {
  const names = { app: "hello", version: "v12" };
  const { metadata } = pod({ projectId: "p-abcdefgh", names });
  expect(metadata.name).toBe("p-abcdefgh-hello-v12-s1");
  expect(metadata.labels).toMatchObject({
    "millrace.dev/project": "p-abcdefgh",
    "millrace.dev/app": "hello",
    "millrace.dev/version": "v12",
    "millrace.dev/seat": "s1",
  });
  // A pod that doctor tries has no app.
  expect(pod().metadata.name).toBe("p-1-s1");
});

verifies("kubernetes.names", "however long its parts are, the name fits and differs from any other", () => {
  const VALID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
  const LABEL = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
  const apps = ["a", "a".repeat(63), `${"a".repeat(30)}-${"b".repeat(32)}`, "Odd_Name."];
  const projects = ["p-1", `p-${"z".repeat(40)}`];
  const seats = ["s-abcdefghijkl", "s-abcdefghijkm", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"];
  for (const app of apps)
    for (const projectId of projects) {
      const workload = { projectId, names: { app, version: "v123456" } };
      const found = seats.map((seatId) => podName(seatId, workload));
      for (const name of found) expect(name).toMatch(VALID);
      expect(new Set(found).size).toBe(seats.length);
      const { labels } = pod(workload).metadata;
      for (const value of Object.values(labels)) expect(value).toMatch(LABEL);
    }
});

verifies("kubernetes.last-words", "every container leaves what it printed last if it fails", () => {
  const image = "registry.example/app:1";
  const building = { isBuild: true, buildsImage: true } as const;
  const registry = { MILLRACE_REGISTRY: "registry.example/millrace" };
  const all = [pod(), pod({ image }), pod(building, registry)].flatMap(({ spec }) => [
    ...spec.containers,
    ...((spec["initContainers"] as object[] | undefined) ?? []),
  ]);
  expect(all).toHaveLength(6);
  for (const each of all) expect(each).toMatchObject({ terminationMessagePolicy: "FallbackToLogsOnError" });
});
