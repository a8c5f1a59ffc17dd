/** Longer than any name, with its port. */
const MAX_HOST_CHARS = 261;
/** A name of letters, digits, dashes and underscores between dots, or an address, and perhaps a port. */
const HOST = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$/;

/** Callers of one address send the same one with every request, and parsing it costs more than all the rest. */
let latest = "";

/** Whether the value of a Host header is a host, perhaps with a port, and nothing else: links are made of it. */
export function isHost(value: string): boolean {
  if (value === latest && value !== "") return true;
  const isOne = value.length <= MAX_HOST_CHARS && HOST.test(value) && URL.canParse(`http://${value}/`);
  if (isOne) latest = value;
  return isOne;
}

/** The part of a host before `.{domain}`, ignoring case, port and a trailing dot; null if the host is not below it. */
export function labelBelow(host: string, domain: string): string | null {
  const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, "");
  return name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : null;
}

/**
 * Whether a transfer encoding is one that everybody between a caller and this service reads in the same way.
 * Node's parser takes others before it (`identity, chunked`) and drops them; a proxy in front may not.
 */
export function isPlainlyChunked(value: string, httpVersion: string): boolean {
  return httpVersion === "1.1" && value.trim().toLowerCase() === "chunked";
}
