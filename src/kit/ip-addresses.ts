import { BlockList, isIP, isIPv6 } from "node:net";

/** Ranges of IP addresses, of both families. */
export class AddressRanges {
  /** As they were written: `10.0.0.0/8`, `fd00::/8`. */
  readonly cidrs: readonly string[];
  readonly #list = new BlockList();

  constructor(cidrs: readonly string[]) {
    this.cidrs = cidrs;
    for (const cidr of cidrs) {
      const [network = "", prefix = ""] = cidr.split("/");
      this.#list.addSubnet(network, Number(prefix), familyOf(network));
    }
  }

  /** Whether the address is in one of them; IPv4 also in its IPv6 form (`::ffff:…`). */
  includes(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, familyOf(address));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

/** IPv4 addresses that are not public. */
export const SPECIAL_4 = [
  "0.0.0.0/8", // this network; connecting to it reaches this machine
  "10.0.0.0/8", // private
  "100.64.0.0/10", // shared by carriers
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link-local, with the metadata services of clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, broadcast
] as const;

/** The same for IPv6. They include IPv4 addresses in IPv6 form, which must be checked as IPv4. */
export const SPECIAL_6 = [
  // Public addresses are in 2000::/3; loopback, private, link-local, multicast and the rest lie outside.
  "::/3",
  "4000::/2",
  "8000::/1",
  "2001::/23", // protocol assignments, with Teredo: an IPv4 address in disguise
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: an IPv4 address in disguise
  "3fff::/20", // documentation
] as const;

const IPV4_AND_PORT = /^([\d.]+):\d+$/;
const BRACKETED = /^\[([^\]]+)\](?::\d+)?$/;

/**
 * The sender of a request from `remote`: that address, or for a trusted proxy, the address before the chain of trusted
 * proxies. Anyone may have written the addresses further left in the header.
 */
export function clientAddress(remote: string, forwardedFor: string | null, trusted: AddressRanges): string {
  if (forwardedFor === null) return remote;
  let address = remote;
  let end = forwardedFor.length;
  while (end > 0 && trusted.includes(address)) {
    const comma = forwardedFor.lastIndexOf(",", end - 1);
    const named = plain(forwardedFor.slice(comma + 1, end).trim());
    // A proxy that names no address ("unknown") forwards its own request.
    if (isIP(named) === 0) break;
    address = named;
    end = comma;
  }
  return address;
}

/** One key for addresses that a host can choose freely: for IPv6, the network (the first half). */
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
