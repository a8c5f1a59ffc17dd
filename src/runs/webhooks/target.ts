import { isIP } from "node:net";
import { AddressRanges, SPECIAL_4, SPECIAL_6 } from "../../kit/ip-addresses.ts";
import { AppError } from "../../model/errors.ts";

const special4 = new AddressRanges(SPECIAL_4);
const special6 = new AddressRanges(SPECIAL_6);

/** An IPv4 address written as IPv6. */
const MAPPED = new AddressRanges(["::ffff:0:0/96"]);

/** NAT64: hosts without IPv4 reach IPv4 addresses through these. The address inside decides. */
const NAT64 = new AddressRanges(["64:ff9b::/96"]);
const NAT64_PREFIX = "64:ff9b::";

/** Whether a webhook may not connect to this address; anything else than an address is forbidden too. */
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

const MAX_CHARACTERS = 2_048;
const LOOPBACK = new AddressRanges(["127.0.0.0/8", "::1/128"]);
const LOOPBACK_NAME = /^(?:.+\.)?localhost(?:\.localdomain|[46])?$|^ip6-(?:localhost|loopback)$/;
/** Names of local networks, which are in no public zone. */
const LOCAL_NAME = /^[^.]*$|\.(?:local|localdomain|internal|intranet|private|corp|lan|home|home\.arpa)$/;

/** Reads a webhook's address; throws `invalid_webhook`. What a name resolves to is checked at each connection. */
export function parseWebhookUrl(text: string, allow: AddressRanges): URL {
  if (text.length > MAX_CHARACTERS) throw invalid(`is longer than ${MAX_CHARACTERS} characters`);
  // Parsers disagree about these; ours would silently drop or change them.
  // oxlint-disable-next-line no-control-regex
  if (/[\x00-\x20\x7f\\]/.test(text)) throw invalid("contains a space, a control character or a backslash");
  if (!/^https?:\/\//i.test(text)) throw invalid("does not begin with http:// or https://");
  if (!URL.canParse(text)) throw invalid("is not a URL");
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") throw invalid("carries credentials");
  if (url.port === "0") throw invalid("has port 0");
  // From here on it is the parsed host that counts: 0x7f.1, 2130706433 and ①②⑦.0.0.1 are 127.0.0.1 in it.
  const host = hostOf(url);
  if (isIP(host) !== 0) {
    if (isForbidden(host, allow)) throw invalid(`points to ${host}, which webhooks may not reach`);
  } else if (!isName(host)) {
    throw invalid("has no usable host name");
  } else if (isLocalName(host, allow)) {
    throw invalid("has a local network name, which webhooks may not reach");
  }
  return url;
}

/** The host of a URL: an address without brackets, or a name without its last dot. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}

function isName(host: string): boolean {
  return host.length <= 253 && host.split(".").every((label) => label.length > 0 && label.length <= 63);
}

/** Whether the name belongs to a part of the local network that is not allowed. */
function isLocalName(host: string, allow: AddressRanges): boolean {
  if (LOOPBACK_NAME.test(host)) return !allow.includes("127.0.0.1") && !allow.includes("::1");
  const isNetworkAllowed = allow.cidrs.some((cidr) => !LOOPBACK.includes(cidr.split("/")[0] ?? ""));
  return LOCAL_NAME.test(host) && !isNetworkAllowed;
}

function invalid(fault: string): AppError {
  return new AppError("invalid_webhook", { message: `webhookEndpoint ${fault}.` });
}
