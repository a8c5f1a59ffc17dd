import { isIP } from "node:net";
import type { Settings } from "../../config/setting-keys.ts";
import { METADATA } from "../../host/walls/network.ts";
import { AddressRanges, SPECIAL_4, SPECIAL_6 } from "../../kit/ip-addresses.ts";
import { INSTALLATION, NETWORK, labelsOf, ownerName } from "./labels.ts";

export type PolicyParts = Pick<Settings, "egressAllow" | "networkDeny"> & {
  readonly installationId: string;
  /** Where agents call: `host:port`. */
  readonly seatAddresses: readonly string[];
};

const KINDS = ["none", "egress", "open"] as const;
type Kind = (typeof KINDS)[number];
const ALL = ["0.0.0.0/0", "::/0"] as const;

/** One policy for each kind of `network`. Pods take no connections: agents connect to the service. */
export function networkPolicies(parts: PolicyParts, ownerUid: string): { name: string; object: object }[] {
  const owner = ownerName(parts.installationId);
  return KINDS.map((kind) => {
    const name = `${owner}-${kind}`;
    const object = {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: {
        name,
        labels: labelsOf(parts.installationId),
        ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: owner, uid: ownerUid }],
      },
      spec: {
        podSelector: { matchLabels: { [INSTALLATION]: parts.installationId, [NETWORK]: kind } },
        policyTypes: ["Ingress", "Egress"],
        egress: [home(parts), ...rules(kind, parts)],
      },
    };
    return { name, object };
  });
}

/** By port alone: most clusters filter after a Service's address was translated, and policies cannot hold names. */
function home({ seatAddresses }: PolicyParts): object {
  const hosts = seatAddresses.map((address) => address.slice(0, address.lastIndexOf(":")));
  const ports = new Set(seatAddresses.map((address) => Number(address.slice(address.lastIndexOf(":") + 1))));
  const isNamed = hosts.some((host) => isIP(host.replaceAll(/^\[|\]$/g, "")) === 0);
  return { ports: [...Array.from(ports, (port) => ({ protocol: "TCP", port })), ...(isNamed ? DNS : [])] };
}

const DNS = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));

function rules(kind: Kind, { egressAllow, networkDeny }: PolicyParts): object[] {
  if (kind === "none") return [];
  const never = [...METADATA, ...networkDeny];
  if (kind === "open") return [{ to: blocks(ALL, never) }];
  const closed = [...SPECIAL_4, ...SPECIAL_6, ...never];
  return [{ to: [...blocks(ALL, closed), ...blocks(egressAllow, never)] }, { ports: DNS }];
}

/** Ranges with exceptions. Kubernetes accepts only exceptions inside their range. */
function blocks(ranges: readonly string[], holes: readonly string[]): object[] {
  return ranges
    .filter((cidr) => !holes.some((hole) => isInside(cidr, hole)))
    .map((cidr) => {
      const except = [...new Set(holes.filter((hole) => isInside(hole, cidr)))];
      return { ipBlock: { cidr, ...(except.length > 0 && { except }) } };
    });
}

/** Whether a range is within another, or equal. */
function isInside(inner: string, outer: string): boolean {
  const [network = "", prefix] = inner.split("/");
  const [other = "", least] = outer.split("/");
  return (
    isIP(network) === isIP(other) &&
    Number(prefix) >= Number(least) &&
    new AddressRanges([outer]).includes(network)
  );
}
