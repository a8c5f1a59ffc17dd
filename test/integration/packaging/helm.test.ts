import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { CHART, MANIFESTS, plainManifests, renderChart } from "../../../scripts/render-manifests.ts";
import { chartFile, FULL_VALUES, LEAST_VALUES, hasHelm } from "../../support/helm-chart.ts";
import { verifies } from "../../verifies.ts";

// oxlint-disable-next-line no-explicit-any
type Rendered = { kind: string; metadata: Metadata; spec: any };
type Metadata = { name: string; namespace?: string; labels?: Record<string, string> };
type Container = { env: { name: string; value?: string }[]; image: string };

const IMAGES = path.join(CHART, "../../kubernetes/images.yaml");

/** The objects by their kind. */
function rendered(values: object): Map<string, Rendered> {
  const documents = parseAllDocuments(renderChart(values, { name: "mill" }));
  return new Map(
    documents.map((each) => {
      const object = each.toJS() as Rendered;
      return [object.kind, object];
    }),
  );
}

function podOf(objects: Map<string, Rendered>) {
  const { spec } = objects.get("Deployment")!.spec.template;
  const [container] = spec.containers as [Container];
  const variables = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
  return { spec, container, variables };
}

describe.skipIf(!hasHelm())("the chart", () => {
  verifies("helm.renders", "the plain manifests are what Helm makes of it", () => {
    expect(readFileSync(MANIFESTS, "utf8")).toBe(plainManifests());
  });

  verifies("helm.renders", "lint finds nothing, and the least values are enough", () => {
    const told = execFileSync("helm", ["lint", "--strict", CHART, "--values", "-"], {
      input: JSON.stringify(LEAST_VALUES),
      encoding: "utf8",
    });
    expect(told).toContain("0 chart(s) failed");
    const objects = rendered(LEAST_VALUES);
    expect([...objects.keys()].toSorted()).toEqual([
      "Deployment",
      "NetworkPolicy",
      "PodDisruptionBudget",
      "Role",
      "RoleBinding",
      "Service",
      "ServiceAccount",
    ]);
    for (const { metadata } of objects.values()) expect(metadata.name).toMatch(/^mill(?:-seats)?$/);
    const { spec, container, variables } = podOf(objects);
    expect(container.image).toBe("registry.test/millrace:0.3.0");
    expect(spec.terminationGracePeriodSeconds).toBe(50);
    expect(variables).toMatchObject({
      MILLRACE_NODE_URL: "https://$(POD_IP):4200",
      MILLRACE_SEAT_URL: "https://$(POD_IP):4300",
      MILLRACE_SHUTDOWN_GRACE: "30s",
      MILLRACE_BLOBS: "s3://bucket/blobs",
    });
    // A pod's variables are filled in by those above them.
    const names = container.env.map(({ name }) => name);
    expect(names.indexOf("POD_IP")).toBeLessThan(names.indexOf("MILLRACE_NODE_URL"));
    expect(names).toEqual([...new Set(names)]);
    expect(spec.affinity.podAntiAffinity).toBeDefined();
  });

  verifies("helm.renders", "every value has its effect", () => {
    const objects = rendered(FULL_VALUES);
    expect([...objects.keys()]).toEqual(expect.arrayContaining(["Ingress", "PodMonitor", "ServiceMonitor"]));
    const rules = parse(chartFile("alerts.yaml")) as { groups: unknown };
    expect(objects.get("PrometheusRule")!.spec).toEqual(rules);
    const dashboards = (objects.get("ConfigMap") as unknown as { data: Record<string, string> }).data;
    expect(Object.keys(dashboards)).toHaveLength(4);
    for (const [name, text] of Object.entries(dashboards))
      expect(JSON.parse(text)).toEqual(JSON.parse(chartFile(`dashboards/${name.replace("millrace-", "")}`)));
    const { spec, container, variables } = podOf(objects);
    expect(container.image).toBe(`registry.test/millrace@${FULL_VALUES.image.tag}`);
    expect(spec.terminationGracePeriodSeconds).toBe(80);
    expect(variables).toMatchObject({
      MILLRACE_NODE_URL: "https://[$(POD_IP)]:4200",
      MILLRACE_HOST: "::",
      MILLRACE_BLOBS: "/shared/blobs",
      MILLRACE_VOLUMES: "/shared/volumes",
      MILLRACE_KUBERNETES_STORAGE: "volumes",
      MILLRACE_REGISTRY: "registry.test:5000/apps",
      MILLRACE_REGISTRY_SECRET: "login",
      MILLRACE_BUILDKIT_NAMESPACE: "builds",
      MILLRACE_PUBLIC_API_URL: "https://apps.test",
      // What somebody has said is not replaced.
      MILLRACE_PUBLIC_BASE_URL: "https://elsewhere.test",
      MILLRACE_REPLICAS_PER_SEAT: "4",
      MILLRACE_EGRESS_ONLY: "true",
      EXTRA: "yes",
    });
    expect(spec.affinity).toEqual(FULL_VALUES.affinity);
    const hosts = (objects.get("Ingress")!.spec.rules as { host: string }[]).map(({ host }) => host);
    expect(hosts).toEqual(["apps.test", "mill.test"]);
    const [callers] = objects.get("NetworkPolicy")!.spec.ingress;
    expect(callers.from).toEqual(FULL_VALUES.networkPolicy.callers);
    const text = JSON.stringify([...objects.values()]);
    for (const word of ["one-label", "one-annotation", "one-pull", "one-class", "one-node", "one-taint"])
      expect(text).toContain(word);
  });

  verifies(["helm.renders", "buildkit.apart"], "images are built where images.yaml says", () => {
    const images = { registry: "registry.test/apps" };
    const made = parseAllDocuments(renderChart({ ...LEAST_VALUES, images })).map(
      (each) => each.toJS() as Rendered,
    );
    const plain = parseAllDocuments(readFileSync(IMAGES, "utf8")).map((each) => each.toJS() as Rendered);
    const isApart = ({ metadata }: Rendered): boolean =>
      metadata.name === "millrace-images" || metadata.namespace === "millrace-images";
    const alike = ({ metadata: { labels, ...metadata }, ...object }: Rendered) => {
      const profile = labels?.["pod-security.kubernetes.io/enforce"];
      return { ...object, metadata, profile };
    };
    expect(made.filter(isApart).map(alike)).toEqual(plain.map(alike));
    const policy = made.find(({ kind }) => kind === "NetworkPolicy");
    expect(policy?.spec.ingress.at(-1).from).toHaveLength(2);
    const own = { ...images, namespace: "builds", createNamespace: false };
    const kinds = parseAllDocuments(renderChart({ ...LEAST_VALUES, images: own })).map(
      (each) => (each.toJS() as Rendered).kind,
    );
    expect(kinds).not.toContain("Namespace");
    expect(kinds.filter((kind) => kind === "Role")).toHaveLength(2);
  });

  verifies("helm.values", "values that are missing, unknown or of the wrong kind are refused", () => {
    const refusal = (values: object): string => {
      try {
        renderChart(values);
      } catch (error) {
        return String((error as { stderr: unknown }).stderr);
      }
      return "taken";
    };
    const less = (name: keyof typeof LEAST_VALUES): object => ({ ...LEAST_VALUES, [name]: undefined });
    expect(refusal(LEAST_VALUES)).toBe("taken");
    expect(refusal(less("image"))).toContain("image.repository: set it");
    expect(refusal(less("workerImage"))).toContain("workerImage: set it");
    expect(refusal(less("blobs"))).toContain("blobs: set url to a bucket");
    const more = (values: object): string => refusal({ ...LEAST_VALUES, ...values });
    expect(more({ blobs: { url: "s3://bucket", claim: "blobs" } })).toContain("not both");
    const here = { registry: "registry.test/apps", namespace: "millrace" };
    expect(more({ images: here })).toContain("images.namespace: pods that build images need");
    expect(more({ ingress: { enabled: true } })).toContain("Host: set it to a host name");
    expect(more({ podMonitor: { enabled: true } })).toContain("podMonitor.tokenSecret: name a Secret");
    for (const values of [
      { replica: 3 },
      { replicas: "3" },
      { blobs: { url: "/srv/blobs" } },
      { config: { MILLRACE_DATABASE_URL: "postgres://user:secret@host/name" } },
      { config: { PATH: "/bin" } },
      // Helm would write it as 1e+07.
      { config: { MILLRACE_MAX_RUNS: 10_000_000 } },
      { ingress: { hosts: [] } },
      { images: { registry: "https://registry.test" } },
      { podDisruptionBudget: { maxUnavailable: 0 } },
    ])
      expect([values, more(values)]).toEqual([
        values,
        expect.stringContaining("don't meet the specification"),
      ]);
  });
});
