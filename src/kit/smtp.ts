import { once } from "node:events";
import { connect, isIP } from "node:net";
import { hostname } from "node:os";
import type { ConnectionOptions } from "node:tls";

/** A mail server as its URL names it. */
export type MailServer = {
  readonly host: string;
  readonly port: number;
  /** When the connection is encrypted: from its first byte, by STARTTLS, or never. */
  readonly tls: "first" | "starttls" | "never";
  readonly login: { readonly user: string; readonly password: string } | null;
};

/** An e-mail of plain text. */
export type Mail = { readonly to: string; readonly subject: string; readonly text: string };

/** A sender: an address, and an optional name before it. */
type Sender = { readonly address: string; readonly name: string | null };

type SendOptions = {
  readonly from: Sender;
  readonly now: number;
  /** Certificate authorities to trust in addition to Node's; for tests. */
  readonly tls?: Pick<ConnectionOptions, "ca">;
};

/** What nodemailer adds to its errors. */
type TransportError = Error & {
  readonly code?: string;
  readonly command?: string;
  readonly response?: string;
  readonly responseCode?: number;
};

const PORTS = { "smtp:": 587, "smtps:": 465 } as const;
/** An address that needs no quoting: no spaces, brackets or line breaks, ASCII only. */
const ADDRESS = /^[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+$/;
const NAMED = /^([^<>"\\\r\n]*)<([^<>\s]+)>$/;
/** The longest known reply has about 20 lines. */
const MAX_REPLY_BYTES = 16 * 1024;
/** How much of a server's reply an error shows. */
const MAX_SHOWN_CHARS = 200;
/** The caller's signal ends a mail earlier; nodemailer's own timeouts are shorter than a slow server's greeting. */
const TIMEOUT_MS = 120_000;

/** Refused commands, by nodemailer's names. */
const REFUSED: Readonly<Record<string, string>> = {
  CONN: "the connection",
  "MAIL FROM": "the sender",
  "RCPT TO": "the recipient",
  DATA: "the mail",
};

/** The mail server refused a command or is unreachable. The message never contains what was sent to it. */
export class SmtpError extends Error {
  /** The status code of the server's reply; null without one. */
  readonly code: number | null;

  constructor(message: string, code: number | null = null) {
    super(message);
    this.name = "SmtpError";
    this.code = code;
  }

  /** Whether a retry may succeed. */
  get isTransient(): boolean {
    return this.code === null || (this.code >= 400 && this.code < 500);
  }
}

/**
 * Reads an `smtp://` or `smtps://` URL, with or without a login; null if it is invalid. `smtp://` requires STARTTLS, except
 * on this machine; `?starttls=never` turns it off, and `?starttls=required` requires it on this machine too.
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
  const isPlain = starttls === "never" || (starttls === undefined && isLocal(host));
  try {
    const user = decodeURIComponent(url.username);
    const password = decodeURIComponent(url.password);
    // AUTH PLAIN separates user and password with NUL.
    if (`${user}${password}`.includes("\0")) return null;
    return {
      host,
      port: url.port === "" ? PORTS[url.protocol] : Number(url.port),
      tls: isSecure ? "first" : isPlain ? "never" : "starttls",
      login: user === "" && password === "" ? null : { user, password },
    };
  } catch {
    return null; // An invalid percent encoding.
  }
}

/** Reads `ada@example.com` and `Ada <ada@example.com>`; null if it is neither. */
export function readSender(text: string): Sender | null {
  const [, before = "", address = text.trim()] = NAMED.exec(text.trim()) ?? [];
  const name = before.trim();
  if (!isMailAddress(address) || !/^[\x20-\x7e]{0,100}$/.test(name)) return null;
  return { address, name: name === "" ? null : name };
}

/** Whether mail can be sent to that address. */
export function isMailAddress(text: string): boolean {
  return text.length <= 254 && ADDRESS.test(text);
}

/** Sends one mail; throws an SmtpError. Uses TLS with a verified certificate, unless the server's URL turns it off. */
export async function sendMail(
  { host, port, tls, login }: MailServer,
  mail: Mail,
  { from, now, tls: trusted = {} }: SendOptions,
  signal: AbortSignal,
): Promise<void> {
  if (!isMailAddress(mail.to)) throw new Error("mail cannot be sent to this address");
  if (login && tls === "never" && !isLocal(host)) throw new SmtpError("the password is not sent without TLS");
  if (signal.aborted) throw new SmtpError("it took too long");
  // Connected here, so that the signal ends it: nodemailer cannot cancel a mail.
  const socket = connect({ host, port });
  // While nodemailer is loaded or sets up, it does not listen yet: without this, a reset would end the process.
  const { promise: broken, reject } = Promise.withResolvers<never>();
  socket.on("error", reject);
  broken.catch(() => {});
  const end = (): void => void socket.destroy(new Error("it took too long, or the service is stopping"));
  signal.addEventListener("abort", end, { once: true });
  try {
    // Loaded with the first mail, because it takes 0.1 s and 16 MB.
    const loaded = Promise.all([import("nodemailer"), once(socket, "connect")]);
    const [{ createTransport }] = await Promise.race([loaded, broken]);
    const transport = createTransport({
      connection: socket,
      host,
      port,
      name: hostname().replaceAll(/[^A-Za-z0-9.-]/g, "") || "localhost",
      secure: tls === "first",
      requireTLS: tls === "starttls",
      ignoreTLS: tls === "never",
      tls: trusted,
      maxResponseSize: MAX_REPLY_BYTES,
      greetingTimeout: TIMEOUT_MS,
      // As an object, since nodemailer takes an empty password for a missing one.
      ...(login && { auth: { user: Object(login.user) as string, pass: Object(login.password) as string } }),
    });
    const sent = transport.sendMail({
      from: { name: from.name ?? "", address: from.address },
      to: mail.to,
      subject: mail.subject,
      text: mail.text.replaceAll(/\r?\n/g, "\r\n"),
      date: new Date(now),
      headers: { "Auto-Submitted": "auto-generated" },
      // No line of the text can then start with a dot or be taken for a command.
      encoding: "base64",
      textEncoding: "base64",
    });
    await Promise.race([sent, broken]);
  } catch (error) {
    throw smtpError(error as TransportError);
  } finally {
    signal.removeEventListener("abort", end);
    socket.destroySoon();
  }
}

/** A server may repeat in a reply what it refuses: only the code is shown if that is the password or the mail. */
function smtpError({ message, code, command = "CONN", response, responseCode }: TransportError): SmtpError {
  if (response && responseCode !== undefined) {
    const isLogin = command.startsWith("AUTH");
    const what = isLogin ? "the login" : (REFUSED[command] ?? command);
    const shown = response.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, MAX_SHOWN_CHARS);
    const said = isLogin || code === "EMESSAGE" ? responseCode : shown;
    return new SmtpError(`the mail server refused ${what}: ${said}`, responseCode);
  }
  if (response) return new SmtpError("the mail server sent something that is not SMTP");
  return new SmtpError(`no connection to the mail server: ${message}`);
}

/** Whether the host is this machine. */
function isLocal(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
