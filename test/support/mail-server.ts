import { type AddressInfo, createServer, type Socket } from "node:net";
import { TLSSocket, createSecureContext } from "node:tls";
import { onTestFinished } from "vitest";
import { Condition } from "../../src/kit/concurrency.ts";
import { MAIL_CERTIFICATE, MAIL_KEY, OTHER_CERTIFICATE, OTHER_KEY } from "./mail-certificate.ts";
import { until } from "./until.ts";

/** A mail as the server took it. */
export type TakenMail = {
  readonly from: string;
  readonly to: string;
  readonly head: string;
  /** Its text, decoded. */
  readonly text: string;
  readonly isEncrypted: boolean;
};

export type MailServerOptions = {
  /** From the first byte, or by STARTTLS. */
  readonly tls?: "first" | "starttls";
  /** Shows the certificate of a server by another name. */
  readonly isOther?: boolean;
  /** Only these may send. */
  readonly login?: { readonly user: string; readonly password: string };
  readonly ways?: "PLAIN" | "LOGIN";
  /** What it answers a command with instead, by its first word; null hangs up. */
  readonly answers?: Readonly<Record<string, string | null>>;
  /** Sends this before the answer to STARTTLS has left, in the clear. */
  readonly injected?: string;
};

/** A real SMTP server on loopback that keeps what it receives. */
export class MailServer {
  readonly taken: TakenMail[] = [];
  /** Every line that clients sent, passwords too. */
  readonly lines: string[] = [];
  connections = 0;
  /** Notified for every mail and every connection. */
  readonly news = new Condition();
  options: MailServerOptions;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.#serve(socket));

  private constructor(options: MailServerOptions) {
    this.options = options;
  }

  static async open(options: MailServerOptions = {}): Promise<MailServer> {
    const server = new MailServer(options);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => server.close());
    return server;
  }

  /** As one server for a file of tests; whoever opens it closes it. */
  static async openShared(): Promise<MailServer> {
    const server = new MailServer({});
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The address that a setting names it by. */
  get url(): string {
    const { tls, login } = this.options;
    const who = login ? `${encodeURIComponent(login.user)}:${encodeURIComponent(login.password)}@` : "";
    const query = tls === "starttls" ? "?starttls=required" : "";
    return `${tls === "first" ? "smtps" : "smtp"}://${who}localhost:${this.port}${query}`;
  }

  /** The mail to that address that came after so many of them. */
  async mailTo(to: string, after = 0): Promise<TakenMail> {
    const found = (): TakenMail | undefined => this.taken.filter((mail) => mail.to === to)[after];
    await until(`mail ${after + 1} to ${to}`, () => found() !== undefined, this.news);
    return found()!;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #serve(raw: Socket): void {
    this.connections += 1;
    this.#sockets.add(raw);
    raw.on("error", () => {}).on("close", () => this.#sockets.delete(raw));
    this.news.notify();
    if (this.options.tls === "first") this.#talk(this.#encrypted(raw), true);
    else this.#talk(raw, false);
  }

  /** One conversation, greeted unless it goes on under TLS. */
  #talk(socket: Socket, isEncrypted: boolean, isGreeted = true): void {
    const { tls, login, ways = "PLAIN", answers = {}, injected } = this.options;
    const say = (text: string): void => void socket.write(`${text}\r\n`);
    let [from, to, body] = ["", "", null as string[] | null];
    let isLoggedIn = !login;
    const asked: string[] = [];
    const onLine = (line: string): void => {
      this.lines.push(line);
      if (body) {
        if (line !== ".") return void body.push(line.replace(/^\./, ""));
        this.#take({ from, to, lines: body, isEncrypted });
        body = null;
        return say(answers["."] ?? "250 taken");
      }
      if (asked.length > 0) return answerLogin(line);
      const [word = ""] = line.toUpperCase().split(/[ :]/);
      const answer = answers[word];
      if (answer === null) return void socket.destroy();
      if (answer !== undefined) return say(answer);
      if (word === "EHLO") {
        const offers = ["localhost", "SIZE 1000000"];
        if (tls === "starttls" && !isEncrypted) offers.push("STARTTLS");
        else if (login) offers.push(`AUTH ${ways}`);
        const last = offers.length - 1;
        return offers.forEach((offer, i) => say(`250${i === last ? " " : "-"}${offer}`));
      }
      if (word === "STARTTLS" && tls !== "starttls") return say("502 not implemented");
      if (word === "STARTTLS") {
        socket.removeAllListeners("data");
        socket.write(`220 go ahead\r\n${injected ?? ""}`);
        return this.#talk(this.#encrypted(socket), true, false);
      }
      if (word === "AUTH") {
        const [, , sent] = line.split(" ");
        if (sent !== undefined) {
          const [, user, password] = Buffer.from(sent, "base64").toString().split("\0");
          return judge(user, password);
        }
        asked.push("");
        return say("334 VXNlcm5hbWU6");
      }
      if (!isLoggedIn && word !== "QUIT") return say("530 log in first");
      if (word === "MAIL") from = line.slice("MAIL FROM:<".length, -1);
      if (word === "RCPT") to = line.slice("RCPT TO:<".length, -1);
      if (word === "DATA") {
        body = [];
        return say("354 go on");
      }
      if (word === "QUIT") return void socket.end("221 bye\r\n");
      say("250 ok");
    };
    const answerLogin = (line: string): void => {
      const text = Buffer.from(line, "base64").toString();
      if (asked.length === 1) {
        asked.push(text);
        return say("334 UGFzc3dvcmQ6");
      }
      const [, user] = asked.splice(0);
      judge(user, text);
    };
    const judge = (user?: string, password?: string): void => {
      isLoggedIn = user === login?.user && password === login?.password;
      say(isLoggedIn ? "235 welcome" : `535 no, ${user} ${password}`);
    };
    let rest = "";
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => {
      const [...lines] = (rest + bytes.toString("latin1")).split("\r\n");
      rest = lines.pop() ?? "";
      for (const line of lines) onLine(line);
    });
    if (isGreeted) say(answers[""] ?? "220 localhost ready");
  }

  #encrypted(socket: Socket): Socket {
    const [key, cert] = this.options.isOther ? [OTHER_KEY, OTHER_CERTIFICATE] : [MAIL_KEY, MAIL_CERTIFICATE];
    const secureContext = createSecureContext({ key, cert });
    return new TLSSocket(socket, { isServer: true, secureContext }).on("error", () => {});
  }

  #take(mail: { from: string; to: string; lines: readonly string[]; isEncrypted: boolean }): void {
    const { from, to, lines, isEncrypted } = mail;
    const end = lines.indexOf("");
    const text = Buffer.from(lines.slice(end).join(""), "base64").toString();
    this.taken.push({ from, to, head: lines.slice(0, end).join("\n"), text, isEncrypted });
    this.news.notify();
  }
}

/** The secret behind the `#` of the link in a mail. */
export function secretIn({ text }: Pick<TakenMail, "text">): string {
  return /https?:\/\/\S+#(\S+)/.exec(text)?.[1] ?? "";
}
