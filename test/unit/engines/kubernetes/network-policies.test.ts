import { expect } from "vitest";
import { networkPolicies } from "../../../../src/engines/kubernetes/network-policies.ts";
import { networkLabel } from "../../../../src/engines/kubernetes/labels.ts";
import { verifies } from "../../../verifies.ts";

type Block = { ipBlock: { cidr: string; except?: string[] } };
type Rule = { to?: Block[]; ports?: { protocol: string; port: number }[] };
type Policy = {
  spec: { podSelector: { matchLabels: object }; policyTypes: string[]; ingress?: object[]; egress: Rule[] };
};

function policies(parts: { egressAllow?: string[]; networkDeny?: string[]; seatAddresses?: string[] } = {}) {
  const made = networkPolicies(
    { installationId: "i1", egressAllow: [], networkDeny: [], seatAddresses: ["10.0.0.5:4300"], ...parts },
    "uid",
  );
  const of = (kind: string): Policy =>
    made.find(({ name }) => name === `millrace-i1-${kind}`)?.object as Policy;
  return { none: of("none").spec, egress: of("egress").spec, open: of("open").spec };
}

verifies("kubernetes.network", "every kind of network has its policy, and nobody connects to a pod", () => {
  const all = policies();
  for (const [kind, { policyTypes, podSelector, ingress }] of Object.entries(all)) {
    expect([policyTypes, ingress]).toEqual([["Ingress", "Egress"], undefined]);
    expect(podSelector.matchLabels).toMatchObject({ "millrace.dev/network": kind });
  }
  expect([false, "egress" as const, true].map(networkLabel)).toEqual(["none", "egress", "open"]);
});

verifies("kubernetes.network", "without a network there is only the way home", () => {
  expect(policies().none.egress).toEqual([{ ports: [{ protocol: "TCP", port: 4300 }] }]);
  const named = policies({ seatAddresses: ["millrace.example:4300", "[fd00::1]:4301"] }).none.egress;
  // A name has to be asked for.
  expect(named.map(({ ports }) => ports?.map(({ port }) => port))).toEqual([[4300, 4301, 53, 53]]);
});

verifies("kubernetes.network", "egress leads outside, and to private ranges that are named", () => {
  const { egress } = policies({
    egressAllow: ["10.1.0.0/16"],
    networkDeny: ["10.1.2.0/24", "1.2.3.0/24"],
  }).egress;
  const blocks = egress.flatMap(({ to = [] }) => to.map(({ ipBlock }) => ipBlock));
  const [all4, all6, allowed] = blocks;
  expect(all4?.cidr).toBe("0.0.0.0/0");
  expect(all4?.except).toEqual(expect.arrayContaining(["10.0.0.0/8", "169.254.0.0/16", "1.2.3.0/24"]));
  expect(all6?.cidr).toBe("::/0");
  expect(all6?.except).toEqual(expect.arrayContaining(["8000::/1"]));
  expect(all6?.except?.every((range) => range.includes(":"))).toBe(true);
  expect(allowed).toEqual({ cidr: "10.1.0.0/16", except: ["10.1.2.0/24"] });
});

verifies("kubernetes.network", "metadata services and denied ranges are closed to all", () => {
  const { open, egress } = policies({ egressAllow: ["10.1.2.0/25"], networkDeny: ["10.1.0.0/16"] });
  const blocks = open.egress.flatMap(({ to = [] }) => to.map(({ ipBlock }) => ipBlock));
  expect(blocks[0]?.except).toEqual(expect.arrayContaining(["169.254.169.254/32", "10.1.0.0/16"]));
  // What is denied as a whole cannot be allowed in part.
  expect(JSON.stringify(egress.egress)).not.toContain("10.1.2.0/25");
});
