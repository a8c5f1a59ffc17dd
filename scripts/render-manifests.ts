import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";

const REPOSITORY = path.join(import.meta.dirname, "..");

/** Where the chart is, and what is made of it for those who do without Helm. */
export const CHART = path.join(REPOSITORY, "packaging/helm/millrace");
export const MANIFESTS = path.join(REPOSITORY, "packaging/kubernetes/services.yaml");

/** What the manifests name; whoever uses them puts their own in place. */
const EXAMPLES = {
  image: { repository: "registry.example.com/millrace" },
  workerImage: "registry.example.com/millrace-worker:{python}",
  blobs: { url: "s3://example-bucket/blobs?region=eu-1", existingSecret: "millrace" },
};

/** Names a state of the chart: a test compares it with the one that the manifests were made of. */
export function chartDigest(): string {
  const files = globSync("**/*", { cwd: CHART }).filter((file) => statSync(path.join(CHART, file)).isFile());
  const hash = createHash("sha256");
  for (const file of files.toSorted()) hash.update(`${file}\0`).update(readFileSync(path.join(CHART, file)));
  return hash.digest("hex");
}

/** The release that tests run on; which one Helm takes by itself depends on how it was built. */
const KUBERNETES = "1.34";

/** What Helm makes of the chart with these values. Throws with its own words if it refuses them. */
export function renderChart(values: object, { name = "millrace", namespace = "millrace" } = {}): string {
  const args = ["--namespace", namespace, "--kube-version", KUBERNETES, "--values", "-"];
  return execFileSync("helm", ["template", name, CHART, ...args], {
    input: JSON.stringify(values),
    encoding: "utf8",
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** The same as plain manifests, in a namespace that is made with them. */
export function plainManifests(): string {
  // Without what is true only of objects that Helm made.
  const objects = renderChart(EXAMPLES).replaceAll(
    /^(?:# Source: | *helm\.sh\/chart: |.*managed-by: Helm$).*\n/gm,
    "",
  );
  return `# The services of Millrace without Helm. Replace what names example: docs/helm.md says how.
# Made by scripts/render-manifests.ts from packaging/helm/millrace; do not edit.
# chart: ${chartDigest()}
apiVersion: v1
kind: Namespace
metadata:
  name: millrace
  labels:
    pod-security.kubernetes.io/enforce: restricted
${objects}`;
}

if (import.meta.main) writeFileSync(MANIFESTS, plainManifests());
