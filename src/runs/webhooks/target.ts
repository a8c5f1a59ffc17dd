import { isIP } from "node:net";
import { AddressRanges } from "../../kit/address-ranges.ts";
import { AppError } from "../../model/errors.ts";
import { isForbidden } from "./address.ts";

const MAX_CHARACTERS = 2_048;
const LOOPBACK = new AddressRanges(["127.0.0.0/8", "::1/128"]);
const LOOPBACK_NAME = /^(?:.+\.)?localhost(?:\.localdomain|[46])?$|^ip6-(?:localhost|loopback)$/;
/** Names that only the local network knows, and that no public zone holds. */
const LOCAL_NAME = /^[^.]*$|\.(?:local|localdomain|internal|intranet|private|corp|lan|home|home\.arpa)$/;

/**
 * Reads the address of a webhook. Throws `invalid_webhook` for what is known to be wrong without asking a
 * name server; what a name stands for is checked at each connection.
 */
export function parseWebhookUrl(text: string, allow: AddressRanges): URL {
  if (text.length > MAX_CHARACTERS) throw invalid(`is longer than ${MAX_CHARACTERS} characters`);
  // Parsers disagree about these; ours would drop or turn them without a word.
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
