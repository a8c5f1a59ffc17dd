import { isIP } from "node:net";

/** A mail server as its address names it. */
export type MailServer = {
  readonly host: string;
  readonly port: number;
  /** From when on the connection is encrypted: its first byte, STARTTLS, never. */
  readonly tls: "first" | "starttls" | "never";
  readonly login: { readonly user: string; readonly password: string } | null;
};

const PORTS = { "smtp:": 587, "smtps:": 465 } as const;

/**
 * Reads `smtp://` and `smtps://` addresses, user and password in them; null for any other. `smtp://` goes on with
 * STARTTLS or not at all, except on this machine; `?starttls=never` says that the network is trusted all the way,
 * `?starttls=required` that even this machine's own server has a certificate.
 */
export function readMailServer(text: string): MailServer | null {
  const url = URL.parse(text);
  if (!url || (url.protocol !== "smtp:" && url.protocol !== "smtps:") || url.hostname === "") return null;
  if (url.hash !== "" || (url.pathname !== "" && url.pathname !== "/")) return null;
  const { starttls, ...unknown } = Object.fromEntries(url.searchParams);
  const isSecure = url.protocol === "smtps:";
  if (Object.keys(unknown).length > 0) return null;
  if (starttls !== undefined && (isSecure || (starttls !== "never" && starttls !== "required"))) return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const isPlain = starttls === "never" || (starttls === undefined && isHere(host));
  try {
    const user = decodeURIComponent(url.username);
    const password = decodeURIComponent(url.password);
    // NUL parts user and password in what is sent.
    if (`${user}${password}`.includes("\0")) return null;
    return {
      host,
      port: url.port === "" ? PORTS[url.protocol] : Number(url.port),
      tls: isSecure ? "first" : isPlain ? "never" : "starttls",
      login: user === "" && password === "" ? null : { user, password },
    };
  } catch {
    return null; // A percent sign that stands for nothing.
  }
}

/** Whether only this machine is in between. */
export function isHere(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
