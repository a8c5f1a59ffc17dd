import { BlockList, isIP } from "node:net";

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

  /** Whether the address lies in one of them; an IPv4 address also in its form within IPv6 (`::ffff:…`). */
  includes(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, familyOf(address));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
