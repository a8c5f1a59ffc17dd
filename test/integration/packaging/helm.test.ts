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

function documents(values: object): Rendered[] {
  return parseAllDocuments(renderChart(values, { name: "mill" })).map((each) => each.toJS() as Rendered);
}

/** The objects by their kind; of several, the last. */
function rendered(values: object): Map<string, Rendered> {
  return new Map(documents(values).map((object) => [object.kind, object]));
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
    for (const { metadata } of documents(FULL_VALUES)) {
      expect(metadata.name).toMatch(/^one-(?:name|account|apps)|^builds$/);
      expect(metadata.labels).toMatchObject({ "app.kubernetes.io/name": "wheel", team: "one-team" });
    }
    const rules = parse(chartFile("alerts.yaml")) as { groups: unknown };
    expect(objects.get("PrometheusRule")!.spec).toEqual(rules);
    const dashboards = (objects.get("ConfigMap") as unknown as { data: Record<string, string> }).data;
    expect(Object.keys(dashboards)).toHaveLength(4);
    for (const [name, text] of Object.entries(dashboards))
      expect(JSON.parse(text)).toEqual(JSON.parse(chartFile(`dashboards/${name.replace("millrace-", "")}`)));
    const { spec, container, variables } = podOf(objects);
    expect(container.image).toBe(`registry.test/millrace@${FULL_VALUES.image.digest}`);
    expect(spec.serviceAccountName).toBe("one-account");
    expect(spec.securityContext).toMatchObject({ fsGroupChangePolicy: "OnRootMismatch", runAsGroup: 10_001 });
    expect(spec.securityContext).not.toHaveProperty("runAsUser");
    expect(spec.initContainers).toEqual(FULL_VALUES.initContainers);
    expect(container).toMatchObject({
      envFrom: FULL_VALUES.extraEnvFrom,
      securityContext: { privileged: false, readOnlyRootFilesystem: true },
      resources: { requests: { "ephemeral-storage": "2Gi" } },
    });
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
      MILLRACE_KUBERNETES_NAMESPACE: "one-apps",
      MILLRACE_PUBLIC_API_URL: "https://apps.test",
      // What somebody has said is not replaced.
      MILLRACE_PUBLIC_BASE_URL: "https://elsewhere.test",
      MILLRACE_REPLICAS_PER_SEAT: "4",
      MILLRACE_EGRESS_ONLY: "true",
      EXTRA: "yes",
    });
    expect(spec.affinity).toEqual(FULL_VALUES.affinity);
    const { rules: hosts, tls } = objects.get("Ingress")!.spec;
    const path = (name: string, at = "/", pathType = "Prefix") => ({
      path: at,
      pathType,
      backend: { service: { name: "one-name", port: { name } } },
    });
    expect(hosts).toEqual([
      { host: "*.apps.test", http: { paths: [path("api")] } },
      { host: "apps.test", http: { paths: [path("api")] } },
      { host: "mill.test", http: { paths: [path("base", "/v2", "Exact")] } },
    ]);
    expect(tls).toEqual(FULL_VALUES.ingress.tls);
    const [callers] = objects.get("NetworkPolicy")!.spec.ingress;
    expect(callers.from).toEqual(FULL_VALUES.networkPolicy.callers);
    const text = JSON.stringify(documents(FULL_VALUES));
    const words = ["label", "annotation", "pull", "class", "node", "taint", "team", "secret"];
    for (const word of words.map((each) => `one-${each}`)) expect(text).toContain(word);
  });

  verifies(
    "helm.renders",
    "a Gateway has a route for each port, and public addresses follow from its hosts",
    () => {
      const { gateway } = FULL_VALUES;
      const routes = documents({ ...LEAST_VALUES, gateway }).filter(({ kind }) => kind === "HTTPRoute");
      expect(routes.map(({ metadata, spec }) => [metadata.name, spec])).toEqual(
        [
          ["api", 4000, "apps"],
          ["base", 4100, "mill"],
        ].map(([name, port, host]) => [
          `mill-${name}`,
          {
            parentRefs: gateway.parentRefs,
            hostnames: [`${host}.gateway.test`],
            rules: [{ backendRefs: [{ name: "mill", port }], timeouts: gateway.timeouts }],
          },
        ]),
      );
      const addresses = (values: object) => {
        const { variables } = podOf(rendered({ ...LEAST_VALUES, ...values }));
        return [variables["MILLRACE_PUBLIC_API_URL"], variables["MILLRACE_PUBLIC_BASE_URL"]];
      };
      expect(addresses({ gateway })).toEqual(["https://apps.gateway.test", "https://mill.gateway.test"]);
      expect(addresses({ gateway: { ...gateway, https: false } })[0]).toBe("http://apps.gateway.test");
      // Its certificate is for one of the two; a wildcard names no address, but its certificate serves those below it.
      const { ingress } = FULL_VALUES;
      expect(addresses({ gateway, ingress })).toEqual(["https://apps.test", "http://mill.test"]);
      const wild = [{ secretName: "certificate", hosts: ["*.test"] }];
      expect(addresses({ ingress: { ...ingress, tls: wild } })[1]).toBe("https://mill.test");
      expect(addresses({})).toEqual([undefined, undefined]);
    },
  );

  verifies(
    ["helm.renders", "helm.apart"],
    "apps in a namespace of their own: the services have rights and pods there alone",
    () => {
      const made = documents({ ...LEAST_VALUES, apps: { namespace: "mill-apps" } });
      const at = (wanted: string) =>
        made.filter(({ kind }) => kind === wanted).map(({ metadata }) => metadata.namespace ?? metadata.name);
      expect([at("Namespace"), at("Role"), at("RoleBinding")]).toEqual([
        ["mill-apps"],
        ["mill-apps"],
        ["mill-apps"],
      ]);
      const space = made.find(({ kind }) => kind === "Namespace")!.metadata as Metadata & {
        annotations: object;
      };
      expect(space.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "restricted" });
      expect(space.annotations).toEqual({ "helm.sh/resource-policy": "keep" });
      const binding = made.find(({ kind }) => kind === "RoleBinding") as unknown as { subjects: object[] };
      expect(binding.subjects).toEqual([{ kind: "ServiceAccount", name: "mill", namespace: "millrace" }]);
      const seats = made.find(({ kind }) => kind === "NetworkPolicy")!.spec.ingress.at(-1).from;
      expect(seats).toEqual([
        {
          podSelector: { matchLabels: { "app.kubernetes.io/managed-by": "millrace" } },
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "mill-apps" } },
        },
      ]);
      const kinds = (values: object) => documents({ ...LEAST_VALUES, ...values }).map(({ kind }) => kind);
      expect(kinds({ apps: { namespace: "mill-apps", createNamespace: false } })).not.toContain("Namespace");
      expect(kinds({ rbac: { create: false }, images: FULL_VALUES.images })).not.toContain("Role");
      const own = { serviceAccount: { create: false } };
      expect(kinds(own)).not.toContain("ServiceAccount");
      expect(podOf(rendered({ ...LEAST_VALUES, ...own })).spec.serviceAccountName).toBe("default");
    },
  );

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
    const sorted = (objects: Rendered[]) =>
      objects.map(alike).toSorted((a, b) => a.kind.localeCompare(b.kind));
    expect(sorted(made.filter(isApart))).toEqual(sorted(plain));
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
    expect(more({ images: { ...here, namespace: "apps" }, apps: { namespace: "apps" } })).toContain(
      "images.namespace: pods that build images need",
    );
    expect(more({ ingress: { enabled: true } })).toContain("ingress.hosts: list the hosts");
    expect(more({ gateway: { enabled: true } })).toContain("gateway: set parentRefs");
    // Names of before.
    expect(more({ replicas: 3 })).toContain("replicas: it is called replicaCount now");
    expect(more({ image: { repository: "a", tag: "sha256:0" } })).toContain("belongs in image.digest");
    expect(more({ ingress: { apiHost: "apps.test" } })).toContain("{host: HOST, port: api} in ingress.hosts");
    expect(more({ ingress: { tlsSecret: "one" } })).toContain("in ingress.tls");
    expect(more({ podMonitor: { enabled: true } })).toContain("podMonitor.tokenSecret: name a Secret");
    for (const values of [
      { replica: 3 },
      { replicaCount: "3" },
      { blobs: { url: "/srv/blobs" } },
      { config: { MILLRACE_DATABASE_URL: "postgres://user:secret@host/name" } },
      { config: { PATH: "/bin" } },
      // Helm would write it as 1e+07.
      { config: { MILLRACE_MAX_RUNS: 10_000_000 } },
      { ingress: { hosts: [{ host: "apps.test" }] } },
      { ingress: { host: "apps.test" } },
      { image: { repository: "a", digest: "sha256:0" } },
      // Two of a label would be no YAML.
      { podLabels: { "app.kubernetes.io/name": "one" } },
      { fullnameOverride: "Mill" },
      { images: { registry: "https://registry.test" } },
      { podDisruptionBudget: { maxUnavailable: 0 } },
    ])
      expect([values, more(values)]).toEqual([
        values,
        expect.stringContaining("don't meet the specification"),
      ]);
  });
});
