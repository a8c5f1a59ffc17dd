import { isIP, isIPv6 } from "node:net";
import type { AddressRanges } from "../address-ranges.ts";

const IPV4_AND_PORT = /^([\d.]+):\d+$/;
const BRACKETED = /^\[([^\]]+)\](?::\d+)?$/;

/**
 * Who sends a request that came from `remote`: that address itself, or, where it is a trusted proxy's, the one that
 * the chain of trusted proxies begins with. Anyone may have written what stands further left in the header.
 */
export function clientAddress(remote: string, forwardedFor: string | null, trusted: AddressRanges): string {
  if (forwardedFor === null) return remote;
  let address = remote;
  let end = forwardedFor.length;
  while (end > 0 && trusted.includes(address)) {
    const comma = forwardedFor.lastIndexOf(",", end - 1);
    const named = plain(forwardedFor.slice(comma + 1, end).trim());
    // A proxy that names no address ("unknown") has forwarded for itself.
    if (isIP(named) === 0) break;
    address = named;
    end = comma;
  }
  return address;
}

/** Addresses that one host can choose freely count as one: for IPv6 the first half, the network. */
export function addressKey(ip: string): string {
  if (!isIPv6(ip)) return ip;
  const mapped = /^::ffff:([\d.]+)$/i.exec(ip)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = "", tail] = ip.toLowerCase().split("::");
  const groups = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: 8 - groups.length - after.length }, () => "0");
  return [...groups, ...(tail === undefined ? [] : zeros), ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}

/** Without the port that some proxies add. */
function plain(named: string): string {
  return IPV4_AND_PORT.exec(named)?.[1] ?? BRACKETED.exec(named)?.[1] ?? named;
}
