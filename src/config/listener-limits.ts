import { AddressRanges } from "../kit/address-ranges.ts";
import { connectionShare, openFilesLimit } from "../kit/listener/open-files.ts";
import type { Log } from "../kit/log.ts";
import type { Settings } from "./setting-keys.ts";

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

const LISTENERS = 2;
/** Below this many connections somebody will miss them. */
const FEW = 1_000;

/** The limits that hold here: no more connections than the process has descriptors for, beside its own work. */
export function listenerLimits(settings: Settings, log: Log, filesLimit = openFilesLimit()): ListenerLimits {
  const { maxConnections: wanted, trustedProxies } = settings;
  const maxConnections = connectionShare(filesLimit, LISTENERS, wanted);
  if (maxConnections < wanted) {
    const isFew = maxConnections < FEW;
    const told = { count: maxConnections, wanted, limit: filesLimit };
    log[isFew ? "warn" : "info"](
      told,
      "each listener takes fewer connections: raise the limit on open files",
    );
  }
  const half = Math.max(1, Math.floor(maxConnections / 2));
  return {
    headerTimeoutMs: settings.headerTimeoutMs,
    bodyTimeoutMs: settings.bodyTimeoutMs,
    idleTimeoutMs: settings.idleTimeoutMs,
    maxConnections,
    maxConnectionsPerAddress: Math.min(settings.maxConnectionsPerAddress, half),
    trusted: new AddressRanges(trustedProxies),
  };
}
