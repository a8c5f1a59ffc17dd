import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { parseAllDocuments } from "yaml";
import {
  describePermission,
  isAllowed,
  KubernetesApi,
  PERMISSIONS,
} from "../../../../src/engines/kubernetes/api.ts";
import { grantedBy, type Rule } from "../../../support/kubernetes/granted.ts";
import { PlayedApi } from "../../../support/kubernetes/played-api.ts";
import { REPOSITORY, readSources } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

type Role = { kind: string; rules: Rule[] };

verifies("kubernetes.role", "the role grants what the service uses, and nothing more", () => {
  const text = readFileSync(path.join(REPOSITORY, "packaging/kubernetes/role.yaml"), "utf8");
  const objects = parseAllDocuments(text).map((document) => document.toJS() as Role);
  expect(objects.map(({ kind }) => kind)).toEqual(["Namespace", "ServiceAccount", "Role", "RoleBinding"]);
  const granted = grantedBy(objects.flatMap(({ kind, rules }) => (kind === "Role" ? rules : [])));
  expect(granted).toEqual(PERMISSIONS.map(describePermission).toSorted());
});

verifies(
  "buildkit.apart",
  "the role for images is the same, in a namespace that admits what builds them",
  () => {
    const text = readFileSync(path.join(REPOSITORY, "packaging/kubernetes/images.yaml"), "utf8");
    const objects = parseAllDocuments(text).map((document) => document.toJS() as Role);
    expect(objects.map(({ kind }) => kind)).toEqual([
      "Namespace",
      "Role",
      "RoleBinding",
      "ValidatingAdmissionPolicy",
      "ValidatingAdmissionPolicyBinding",
    ]);
    const granted = grantedBy(objects.flatMap(({ kind, rules }) => (kind === "Role" ? rules : [])));
    expect(granted).toEqual(PERMISSIONS.map(describePermission).toSorted());
    expect(text).toContain("pod-security.kubernetes.io/enforce: privileged");
  },
);

verifies("kubernetes.role", "every request that the engine makes is among them", () => {
  // As the sources name them: `api.pathOf(CORE, "pods")` with the method before it or the patch after it.
  const files = readSources(["src/engines/kubernetes"], [".ts"]);
  const used = new Set(
    [...files.values()].flatMap((text) =>
      [...text.matchAll(/pathOf\((?:\w+|"[^"]+"), "(\w+)"/g)].map(([, resource = ""]) => resource),
    ),
  );
  expect([...used].toSorted()).toEqual([...new Set(PERMISSIONS.map(({ resource }) => resource))].toSorted());
});

verifies("kubernetes.doctor", "the cluster is asked for one permission at a time", async () => {
  const played = await PlayedApi.open();
  const api = new KubernetesApi(played.access);
  onTestFinished(() => api.close());
  const asking = isAllowed(api, { verb: "patch", group: "networking.k8s.io", resource: "networkpolicies" });
  const asked = await played.next();
  expect(asked.path).toBe("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
  expect(asked.body).toMatchObject({
    spec: {
      resourceAttributes: {
        namespace: "apps",
        verb: "patch",
        group: "networking.k8s.io",
        resource: "networkpolicies",
      },
    },
  });
  asked.answer(201, { status: { allowed: false } });
  expect(await asking).toBe(false);
});
