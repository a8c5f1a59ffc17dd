import type { Settings } from "../config/setting-keys.ts";
import type { Log } from "../kit/log.ts";
import { isLoopback } from "./operator.ts";

/** One loud warning where tokens would travel in the clear. */
export function warnOfExposure({ host, publicApiUrl }: Settings, log: Log): void {
  if (isLoopback(host) || publicApiUrl?.startsWith("https://")) return;
  log.warn(
    { host },
    "LISTENING BEYOND THIS MACHINE WITHOUT TLS: put a TLS proxy in front, tokens travel in the clear",
  );
}

/** The address of a listener as somebody on this machine reaches it. */
export function listenerUrl(host: string, port: number): string {
  if (host === "0.0.0.0") return `http://127.0.0.1:${port}`;
  return host.includes(":") ? `http://[${host === "::" ? "::1" : host}]:${port}` : `http://${host}:${port}`;
}
