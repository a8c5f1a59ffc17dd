import { connect as connectPlain, isIP } from "node:net";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { Dialogue, SmtpError } from "./dialogue.ts";
import { isHere } from "./mail-server.ts";
import type { MailServer } from "./mail-server.ts";
import { mailBytes } from "./message.ts";
import type { Mail, Sender } from "./message.ts";

type SendOptions = {
  readonly from: Sender;
  readonly now: number;
  /** Which authorities to trust besides what Node does; a test has its own. */
  readonly tls?: Pick<ConnectionOptions, "ca">;
};

/**
 * Hands one mail to the server; throws an SmtpError. The password and the mail leave this machine only over TLS,
 * with the server's certificate checked, unless the address of the server says otherwise.
 */
export async function sendMail(
  server: MailServer,
  mail: Mail,
  { from, now, tls = {} }: SendOptions,
  signal: AbortSignal,
): Promise<void> {
  const bytes = mailBytes(mail, from, now);
  if (signal.aborted) throw new SmtpError("it took too long");
  let socket: Socket = connectPlain({ host: server.host, port: server.port });
  const end = (): void => void socket.destroy(new Error("it took too long, or the service is stopping"));
  signal.addEventListener("abort", end, { once: true });
  try {
    if (server.tls === "first") socket = secured(socket, server, tls);
    let dialogue = new Dialogue(socket);
    await dialogue.read(2, "the connection");
    let extensions = await greet(dialogue);
    if (server.tls === "starttls") {
      if (!extensions.has("STARTTLS")) throw new SmtpError("the mail server offers no STARTTLS");
      await dialogue.ask("STARTTLS", 2, "STARTTLS");
      socket = secured(dialogue.release(), server, tls);
      dialogue = new Dialogue(socket);
      // Greet again: anyone in between could have forged what was offered before TLS.
      extensions = await greet(dialogue);
    }
    if (server.login) await logIn(dialogue, server, server.login, extensions);
    await dialogue.ask(`MAIL FROM:<${from.address}>`, 2, "the sender");
    await dialogue.ask(`RCPT TO:<${mail.to}>`, 2, "the recipient");
    await dialogue.ask("DATA", 3, "the mail");
    // No line of it begins with a dot: those of its head do not, and its text is base64.
    await dialogue.confide(`${bytes}.`, 2, "the mail");
    // The server has accepted the mail, so a failed QUIT does not matter.
    dialogue.write("QUIT\r\n");
  } finally {
    signal.removeEventListener("abort", end);
    socket.destroySoon();
    socket.on("error", () => {});
  }
}

/** The connection goes on under TLS; a certificate that is not the server's ends it. */
function secured(socket: Socket, { host }: MailServer, tls: Pick<ConnectionOptions, "ca">): Socket {
  // TLS reports the same errors on the socket above.
  socket.on("error", () => {});
  return connectTls({ socket, ...(isIP(host) === 0 && { servername: host }), host, ...tls });
}

/** Says hello; what the server can do, by its first word. */
async function greet(dialogue: Dialogue): Promise<Map<string, string>> {
  const name = hostname().replaceAll(/[^A-Za-z0-9.-]/g, "");
  const { lines } = await dialogue.ask(`EHLO ${name || "localhost"}`, 2, "EHLO");
  return new Map(
    lines.slice(1).map((line) => {
      const [word = "", ...rest] = line.trim().toUpperCase().split(/[ =]/);
      return [word, rest.join(" ")];
    }),
  );
}

async function logIn(
  dialogue: Dialogue,
  { host, tls }: MailServer,
  { user, password }: NonNullable<MailServer["login"]>,
  extensions: ReadonlyMap<string, string>,
): Promise<void> {
  if (tls === "never" && !isHere(host)) throw new SmtpError("the password is not sent without TLS");
  const ways = (extensions.get("AUTH") ?? "").split(" ");
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  if (ways.includes("PLAIN")) {
    await dialogue.confide(`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`, 2, "the login");
  } else if (ways.includes("LOGIN")) {
    await dialogue.confide("AUTH LOGIN", 3, "the login");
    await dialogue.confide(base64(user), 3, "the login");
    await dialogue.confide(base64(password), 2, "the login");
  } else throw new SmtpError("the mail server supports neither PLAIN nor LOGIN");
}
