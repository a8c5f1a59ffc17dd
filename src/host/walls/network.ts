import path from "node:path";
import type { Settings } from "../../config/setting-keys.ts";
import { runtimeDir } from "../../kit/runtime-dir.ts";
import { SPECIAL_4, SPECIAL_6 } from "../../kit/ip-addresses.ts";
import type { Network } from "../../model/app-config.ts";

/** The agent's fields for a network: names and values. */
export type NetworkFields = readonly (readonly [string, string])[];

export const NO_NETWORK: NetworkFields = [["network", "false"]];

/** The kernel can ask the agent about system calls, so that unix sockets can be allowed selectively. */
const NOTIFIER: NetworkFields = [["notifier", "true"]];

/** The metadata services of clouds, which hold secrets of the machine. */
export const METADATA = [
  "169.254.169.254/32", // nearly all of them
  "fd00:ec2::254/128", // AWS
  "169.254.170.2/32", // AWS, for containers
  "169.254.170.23/32", // AWS, for pods
  "fd00:ec2::23/128",
  "fd20:ce::254/128", // Google
  "168.63.129.16/32", // Azure
  "100.100.100.200/32", // Alibaba
] as const;

/** DNS over TCP, because datagrams are blocked. The C library reads the first, gRPC the second. */
const WITHOUT_DATAGRAMS = { RES_OPTIONS: "use-vc", GRPC_DNS_RESOLVER: "native" } as const;

/** Ports of this machine, both ends included. */
export type PortRange = { readonly first: number; readonly last: number };

/** The ports of servers. Below those that the kernel picks for outgoing connections; apps may use no port of others. */
export const SERVER_PORTS: PortRange = { first: 21_000, last: 24_999 };

export type NetworkWall = Pick<
  Settings,
  "egressOnly" | "egressAllow" | "networkDeny" | "networkUnenforced"
> & {
  /** Whether apps are isolated at all: every level can cut off the whole network. */
  readonly hasWalls: boolean;
  /** Why connections of apps are not filtered; null if they are. */
  readonly gap: string | null;
  /** The port of the management API; 0 until it is known. */
  readonly managementPort: () => number;
  /** A file with the current management APIs of other nodes; null if there are none. */
  readonly neighbours: string | null;
};

/** The file that tells agents about the other nodes. */
export function neighboursFile(dataDir: string): string {
  return path.join(runtimeDir(dataDir), "neighbours");
}

function inForce(asked: Network, { egressOnly }: NetworkWall): Network {
  return asked === true && egressOnly ? "egress" : asked;
}

type Unkept = { readonly message: string; readonly isRefused: boolean };

/** What of an app's `network` is not enforced here, and whether the app may run; null if all is enforced. */
export function unkept(asked: Network, wall: NetworkWall): Unkept | null {
  const network = inForce(asked, wall);
  const noWalls = "this service runs apps without isolation (MILLRACE_ISOLATION)";
  if (network === false && !wall.hasWalls)
    return { message: `network = false is not enforced: ${noWalls}`, isRefused: false };
  if (network !== "egress" || wall.gap === null) return null;
  return egressUnkept(wall.gap, wall);
}

/** The same for a container, which reaches everything that the host can reach, or nothing. */
export function unkeptByContainers(asked: Network, wall: NetworkWall): Unkept | null {
  if (inForce(asked, wall) !== "egress") return null;
  return egressUnkept("the app runs in a container", wall);
}

function egressUnkept(why: string, { networkUnenforced }: NetworkWall): Unkept {
  const isRefused = networkUnenforced === "refuse";
  return { message: `network = "egress" is not enforced: ${why}`, isRefused };
}

/** The port of a server's replica, and the declared one, which stands for it inside. */
export type ServerPorts = { readonly own: number; readonly declared: number };

export function networkFields(asked: Network, wall: NetworkWall, server?: ServerPorts | null): NetworkFields {
  const network = inForce(asked, wall);
  if (network === false) return wall.gap === null ? [...NO_NETWORK, ...NOTIFIER] : NO_NETWORK;
  const fields: (readonly [string, string])[] = [["network", String(network)]];
  if (wall.gap !== null) return fields;
  fields.push(["management_port", String(wall.managementPort())]);
  if (wall.neighbours !== null) fields.push(["neighbours", wall.neighbours]);
  fields.push(["server_ports", `${SERVER_PORTS.first}-${SERVER_PORTS.last}`]);
  if (server) fields.push(["own_port", String(server.own)], ["declared_port", String(server.declared)]);
  for (const range of [...METADATA, ...wall.networkDeny]) fields.push(["denied", range]);
  if (network !== "egress") return fields;
  for (const range of [...SPECIAL_4, ...SPECIAL_6]) fields.push(["private", range]);
  for (const range of wall.egressAllow) fields.push(["allowed", range]);
  return fields;
}

/** Variables that an app needs with its network rules. */
export function networkVariables(asked: Network, wall: NetworkWall): Readonly<Record<string, string>> {
  return wall.gap === null && inForce(asked, wall) === "egress" ? WITHOUT_DATAGRAMS : {};
}

/** For each value of `network`, whether it is enforced. */
export function networkReport({ hasWalls, gap }: Pick<NetworkWall, "hasWalls" | "gap">) {
  const judged = gap === null ? "enforced" : `not enforced: ${gap}`;
  const cut = hasWalls ? "enforced" : "not enforced: apps live behind no walls";
  return { true: judged, egress: judged, false: cut };
}
