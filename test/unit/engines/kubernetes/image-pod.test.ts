import { expect } from "vitest";
import { INTERNALS } from "../../../../src/config/setting-keys.ts";
import { podOf, podPartsOf } from "../../../../src/engines/kubernetes/pod-spec.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { WORKLOAD, kubernetesSettings, orderFor } from "../../../support/kubernetes/sample.ts";
import { verifies } from "../../../verifies.ts";

type Container = {
  name: string;
  image: string;
  restartPolicy?: string;
  command: string[];
  resources: object;
  securityContext: Record<string, unknown>;
  volumeMounts: { name: string; mountPath: string }[];
};
type Spec = {
  securityContext: object;
  imagePullSecrets?: object[];
  hostUsers?: boolean;
  initContainers: Container[];
  containers: Container[];
  volumes: { name: string; secret?: { secretName: string; defaultMode: number } }[];
};

const ENV = {
  MILLRACE_REGISTRY: "registry.example/millrace",
  MILLRACE_REGISTRY_SECRET: "registry-login",
  MILLRACE_KUBERNETES_POD: '{"hostUsers":false,"imagePullSecrets":[{"name":"all"}]}',
};

function specOf(workload: Partial<Workload>, env: Record<string, string> = ENV): Spec {
  const settings = kubernetesSettings(env);
  const given = { whose: { installationId: "i1", nodeId: "n1" }, image: "worker:{python}", python: "3.11.7" };
  const all = { ...WORKLOAD, ...workload };
  const { spec } = podOf(podPartsOf(settings, given), "owner-uid", orderFor("s1"), all) as { spec: Spec };
  // As the cluster gets it.
  return JSON.parse(JSON.stringify(spec)) as Spec;
}

const BUILD = {
  isBuild: true,
  buildsImage: true,
  limits: { memoryBytes: 4e9, cpus: null, cpuShare: 1 },
} as const;

verifies(
  ["buildkit.walls", "buildkit.tokens"],
  "BuildKit alone is less than restricted, and sees no secret",
  () => {
    const { initContainers, containers, volumes, securityContext, hostUsers } = specOf(BUILD);
    expect(securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 1000,
      seccompProfile: { type: "RuntimeDefault" },
    });
    // It would have too few users.
    expect(hostUsers).toBeUndefined();
    const [bringer, buildkitd] = initContainers;
    const [agent] = containers;
    const walls = {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    };
    expect([bringer?.securityContext, agent?.securityContext]).toEqual([walls, walls]);
    expect(agent?.image).toBe("worker:3.11");
    expect(buildkitd).toMatchObject({
      image: INTERNALS.buildkitImage,
      restartPolicy: "Always",
      resources: { limits: { memory: "4000000000" } },
      securityContext: {
        capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
        seccompProfile: { type: "Unconfined" },
        appArmorProfile: { type: "Unconfined" },
        readOnlyRootFilesystem: true,
      },
    });
    expect(buildkitd?.securityContext).not.toHaveProperty("privileged");
    expect(volumes).toContainEqual({
      name: "config",
      configMap: { name: INTERNALS.buildkitConfig, optional: true },
    });
    const secret = volumes.filter((each) => each.secret).map(({ name }) => name);
    expect(secret.toSorted()).toEqual(["logins", "order"]);
    for (const each of initContainers)
      expect(each.volumeMounts.map(({ name }) => name).filter((name) => secret.includes(name))).toEqual([]);
    const places = new Map(agent?.volumeMounts.map(({ name, mountPath }) => [name, mountPath]));
    expect(places.get("logins")).toBe("/run/logins");
    expect(places.get("config")).toBe("/etc/buildkit");
    expect(buildkitd?.command).toContain("/etc/buildkit/buildkitd.toml");
  },
);

verifies(
  "buildkit.logins",
  "a pod that runs what was built pulls with the same secret, and no other pod does",
  () => {
    const built = `registry.example/millrace/p-1/app@sha256:${"a".repeat(64)}`;
    expect(specOf({ image: built }).imagePullSecrets).toEqual([{ name: "all" }, { name: "registry-login" }]);
    expect(specOf({ image: "registry.example/millrace-not/app:1" }).imagePullSecrets).toEqual([
      { name: "all" },
    ]);
    expect(specOf({}).imagePullSecrets).toEqual([{ name: "all" }]);
    const open = { MILLRACE_REGISTRY: ENV.MILLRACE_REGISTRY };
    expect(specOf({ image: built }, open).imagePullSecrets).toBeUndefined();
    expect(specOf(BUILD, open).volumes.map(({ name }) => name)).not.toContain("logins");
  },
);
