import { isIP } from "node:net";
import { AddressRanges } from "../../kit/address-ranges.ts";
import { SPECIAL_4, SPECIAL_6 } from "../../kit/special-addresses.ts";

const special4 = new AddressRanges(SPECIAL_4);
const special6 = new AddressRanges(SPECIAL_6);

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
  if (isIP(address) === 4 || MAPPED.includes(address)) return special4.includes(address);
  if (NAT64.includes(address)) return special4.includes(insideNat64(address));
  return special6.includes(address);
}

function insideNat64(address: string): string {
  const shortest = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const groups = shortest.slice(NAT64_PREFIX.length).split(":");
  const [low = 0, high = 0] = groups.map((group) => Number.parseInt(group || "0", 16)).toReversed();
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}
