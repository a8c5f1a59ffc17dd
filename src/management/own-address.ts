import type { Settings } from "../config/setting-keys.ts";
import type { Log } from "../kit/log.ts";
import { isLoopback } from "./operator.ts";

/** The address of a listener as somebody on this machine reaches it. */
export function listenerUrl(host: string, port: number): string {
  if (host === "0.0.0.0") return `http://127.0.0.1:${port}`;
  return host.includes(":") ? `http://[${host === "::" ? "::1" : host}]:${port}` : `http://${host}:${port}`;
}

/** Says aloud what the settings leave open to others, or closed to them. */
export function warnOfExposure(settings: Settings, baseUrl: string, log: Log): void {
  const { host, publicApiUrl, publicBaseUrl, smtpUrl } = settings;
  if (smtpUrl !== null && publicBaseUrl === null) {
    log.warn({ baseUrl }, "links in mails point to this address; set MILLRACE_PUBLIC_BASE_URL to change it");
  }
  if (isLoopback(host) || publicApiUrl?.startsWith("https://")) return;
  log.warn(
    { host },
    "REACHABLE FROM OTHER MACHINES WITHOUT TLS: tokens travel unencrypted; put a TLS proxy in front",
  );
}
