import { AddressRanges } from "../kit/ip-addresses.ts";
import type { Log } from "../kit/log.ts";
import type { Settings } from "./setting-keys.ts";
import { readFileSync } from "node:fs";

/** What both listeners allow the connections that come to them. */
export type ListenerLimits = Pick<Settings, "headerTimeoutMs" | "bodyTimeoutMs" | "idleTimeoutMs"> & {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly trusted: AddressRanges;
};

/** Those of a service on a machine that has descriptors enough, with no setting of its own. */
export const USUAL_LIMITS: ListenerLimits = {
  maxConnections: 10_000,
  maxConnectionsPerAddress: 2_000,
  trusted: new AddressRanges([]),
  headerTimeoutMs: 10_000,
  bodyTimeoutMs: 60_000,
  idleTimeoutMs: 65_000,
};

/** Of what the process has descriptors for: people and deploys need few connections, calls and streams many. */
const MANAGEMENT_SHARE = 1 / 8;
/** Fewer connections than this are worth a warning. */
const FEW = 1_000;

/** The limits of each listener: neither takes what the other needs, and both full leave the service its descriptors. */
export function listenerLimits(
  settings: Settings,
  log: Log,
  filesLimit = openFilesLimit(),
): { readonly api: ListenerLimits; readonly management: ListenerLimits } {
  const { maxConnections: wanted } = settings;
  const all =
    filesLimit === null
      ? Infinity
      : filesLimit - Math.max(LEAST_KEPT_BACK, Math.ceil(filesLimit * KEPT_BACK));
  const management = atMost(wanted, all * MANAGEMENT_SHARE);
  const api = atMost(wanted, all - management);
  if (api < wanted) {
    log[api < FEW ? "warn" : "info"](
      { count: api, wanted, limit: filesLimit },
      "the listener for calls takes fewer connections: raise the limit on open files",
    );
  }
  return { api: limitsOf(settings, api), management: limitsOf(settings, management) };
}

function atMost(wanted: number, given: number): number {
  return Math.max(1, Math.min(wanted, Math.floor(given)));
}

function limitsOf(settings: Settings, maxConnections: number): ListenerLimits {
  const perAddress =
    settings.maxConnectionsPerAddress ?? Math.max(2_000, Math.floor(settings.maxConnections / 5));
  const { headerTimeoutMs, bodyTimeoutMs, idleTimeoutMs } = settings;
  return {
    headerTimeoutMs,
    bodyTimeoutMs,
    idleTimeoutMs,
    maxConnections,
    maxConnectionsPerAddress: Math.min(perAddress, Math.max(1, Math.floor(maxConnections / 2))),
    trusted: new AddressRanges(settings.trustedProxies),
  };
}

/** Database, logs, sockets of replicas, files of uploads: never less than this, and of a large limit a quarter. */
const LEAST_KEPT_BACK = 256;
const KEPT_BACK = 1 / 4;

/** How many files and connections this process may have open; null where nothing tells. Node asks for all it may have. */
export function openFilesLimit(): number | null {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null; // Only Linux has it.
  }
}
