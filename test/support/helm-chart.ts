import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { CHART } from "../../scripts/render-manifests.ts";

type Schema = { readonly properties?: Readonly<Record<string, Schema>>; readonly [more: string]: unknown };

/** Whether Helm is here; said aloud where it is not. */
export function hasHelm(): boolean {
  const found = spawnSync("helm", ["version", "--short"]).status === 0;
  if (!found) process.stderr.write("\nskipped: there is no helm on the PATH\n");
  return found;
}

/** What the chart may be given: each value by its path, such as `image.tag`, with what it is unless it is given. */
export function chartValues(): Map<string, unknown> {
  const defaults = parse(chartFile("values.yaml")) as unknown;
  return new Map(
    leavesOf(chartSchema()).map((where) => [
      where,
      where.split(".").reduce((at, name) => (at as Record<string, unknown>)[name], defaults),
    ]),
  );
}

export function chartSchema(): Schema {
  return JSON.parse(chartFile("values.schema.json")) as Schema;
}

export function chartFile(name: string): string {
  return readFileSync(path.join(CHART, name), "utf8");
}

/** All but what Helm itself adds to a chart that is part of another. */
function leavesOf({ properties }: Schema, above = ""): string[] {
  return Object.entries(properties ?? {})
    .filter(([name]) => name !== "global")
    .flatMap(([name, below]) =>
      below.properties ? leavesOf(below, `${above}${name}.`) : [`${above}${name}`],
    );
}

/** No chart goes without these. */
export const LEAST_VALUES = {
  image: { repository: "registry.test/millrace" },
  workerImage: "registry.test/millrace-worker:{python}",
  blobs: { url: "s3://bucket/blobs" },
};

/** Something for every value that has an effect of its own. */
export const FULL_VALUES = {
  image: { repository: "registry.test/millrace", digest: `sha256:${"0".repeat(64)}`, pullPolicy: "Always" },
  imagePullSecrets: [{ name: "one-pull" }],
  workerImage: "registry.test/millrace-worker:{python}",
  replicaCount: 3,
  nameOverride: "wheel",
  fullnameOverride: "one-name",
  commonLabels: { team: "one-team", one: "each-label" },
  serviceAccount: { name: "one-account", annotations: { one: "one-annotation" } },
  apps: { namespace: "one-apps" },
  shutdownGraceSeconds: 60,
  ipv6: true,
  blobs: { claim: "blobs", existingSecret: "keys" },
  storage: { claim: "volumes" },
  images: { registry: "registry.test:5000/apps", secret: "login", namespace: "builds" },
  config: {
    MILLRACE_REPLICAS_PER_SEAT: "4",
    MILLRACE_EGRESS_ONLY: true,
    MILLRACE_PUBLIC_BASE_URL: "https://elsewhere.test",
  },
  extraEnv: [{ name: "EXTRA", value: "yes" }],
  extraEnvFrom: [{ secretRef: { name: "one-secret" } }],
  initContainers: [
    {
      name: "one-init",
      image: "registry.test/init",
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    },
  ],
  podSecurityContext: { fsGroupChangePolicy: "OnRootMismatch", runAsUser: null },
  securityContext: { privileged: false },
  extraVolumes: [{ name: "more", emptyDir: {} }],
  extraVolumeMounts: [{ name: "more", mountPath: "/more" }],
  service: { type: "LoadBalancer", annotations: { one: "one-annotation" } },
  ingress: {
    enabled: true,
    className: "nginx",
    annotations: { one: "one-annotation" },
    hosts: [
      { host: "*.apps.test", port: "api" },
      { host: "apps.test", port: "api" },
      { host: "mill.test", port: "base", paths: [{ path: "/v2", pathType: "Exact" }] },
    ],
    tls: [{ secretName: "certificate", hosts: ["apps.test"] }],
  },
  gateway: {
    enabled: true,
    parentRefs: [{ name: "public", namespace: "gateways" }],
    annotations: { one: "one-annotation" },
    hosts: [
      { host: "apps.gateway.test", port: "api" },
      { host: "mill.gateway.test", port: "base" },
    ],
    timeouts: { request: "0s" },
  },
  networkPolicy: { enabled: true, callers: [{ ipBlock: { cidr: "10.0.0.0/8" } }] },
  podMonitor: { enabled: true, interval: "10s", labels: { one: "one-label" }, tokenSecret: "metrics" },
  serviceMonitor: { enabled: true, interval: "10s", labels: { one: "one-label" }, tokenSecret: "metrics" },
  prometheusRule: { enabled: true, labels: { one: "one-label" } },
  grafana: { enabled: true, labels: { one: "one-label" } },
  podDisruptionBudget: { maxUnavailable: "50%" },
  podLabels: { one: "one-label" },
  podAnnotations: { one: "one-annotation" },
  priorityClassName: "one-class",
  nodeSelector: { one: "one-node" },
  tolerations: [{ key: "one-taint", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway", labelSelector: {} },
  ],
};
