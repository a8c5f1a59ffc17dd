import { isIP } from "node:net";
import { AddressRanges } from "../../kit/address-ranges.ts";

/** IPv4 addresses that are nobody's on the public internet. */
const SPECIAL_4 = new AddressRanges([
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
]);

/** Where public IPv6 addresses are; loopback, private, link-local, multicast and the rest lie outside. */
const GLOBAL_6 = new AddressRanges(["2000::/3"]);

/** What is special inside it. */
const SPECIAL_6 = new AddressRanges([
  "2001::/23", // protocol assignments, with Teredo: an IPv4 address in disguise
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: an IPv4 address in disguise
  "3fff::/20", // documentation
]);

/** An IPv4 address written as IPv6. */
const MAPPED = new AddressRanges(["::ffff:0:0/96"]);

/** NAT64, how hosts without IPv4 reach it: as good or bad as the address inside. */
const NAT64 = new AddressRanges(["64:ff9b::/96"]);
const NAT64_PREFIX = "64:ff9b::";

/** Whether a webhook may not connect to this address. What is no address at all is forbidden too. */
export function isForbidden(address: string, allow: AddressRanges): boolean {
  // A zone (`fe80::1%eth0`) makes sense on one machine only.
  if (isIP(address) === 0 || address.includes("%")) return true;
  if (allow.includes(address)) return false;
  if (isIP(address) === 4 || MAPPED.includes(address)) return SPECIAL_4.includes(address);
  if (NAT64.includes(address)) return SPECIAL_4.includes(insideNat64(address));
  return !GLOBAL_6.includes(address) || SPECIAL_6.includes(address);
}

function insideNat64(address: string): string {
  const shortest = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const groups = shortest.slice(NAT64_PREFIX.length).split(":");
  const [low = 0, high = 0] = groups.map((group) => Number.parseInt(group || "0", 16)).toReversed();
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}
