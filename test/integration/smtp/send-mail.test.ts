import { describe, expect, test } from "vitest";
import { type Mail, readMailServer, readSender, sendMail, SmtpError } from "../../../src/kit/smtp.ts";
import { MAIL_CERTIFICATE, OTHER_CERTIFICATE } from "../../support/mail-certificate.ts";
import { MailServer, type MailServerOptions } from "../../support/mail-server.ts";
import { verifies } from "../../verifies.ts";

const LOGIN = { user: "millrace", password: "pa:ss@wörd/%" };
const MAIL = { to: "ada@example.com", subject: "Grüße from Millrace", text: ".\nline\n..dots\nÜmläut\n" };
const FROM = readSender("Millrace <no-reply@example.com>")!;

async function send(
  server: MailServer,
  { trusts = true, url = server.url }: { trusts?: boolean; url?: string } = {},
): Promise<void> {
  const tls = trusts ? { ca: [MAIL_CERTIFICATE, OTHER_CERTIFICATE] } : {};
  const now = Date.UTC(2026, 0, 15, 12);
  await sendMail(readMailServer(url)!, MAIL, { from: FROM, now, tls }, new AbortController().signal);
}

/** Why it was not sent. */
async function refusal(server: MailServer, options: Parameters<typeof send>[1] = {}): Promise<SmtpError> {
  const error: unknown = await send(server, options).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(SmtpError);
  return error as SmtpError;
}

describe("a mail", () => {
  const ways: readonly (readonly [string, MailServerOptions])[] = [
    ["in the clear on this machine", {}],
    ["with a login by PLAIN", { login: LOGIN }],
    ["with a login by LOGIN", { login: LOGIN, ways: "LOGIN" }],
    ["over STARTTLS", { tls: "starttls", login: LOGIN }],
    ["over TLS from the first byte", { tls: "first", login: LOGIN, ways: "LOGIN" }],
  ];
  for (const [way, options] of ways) {
    verifies("mail.smtp", `arrives whole ${way}`, async () => {
      const server = await MailServer.open(options);
      await send(server);
      expect(server.taken).toEqual([
        {
          from: "no-reply@example.com",
          to: "ada@example.com",
          head: expect.any(String) as string,
          text: MAIL.text.replaceAll("\n", "\r\n"),
          isEncrypted: options.tls !== undefined,
        },
      ]);
      const head = server.taken[0]?.head ?? "";
      expect(head).toContain("From: Millrace <no-reply@example.com>\nTo: ada@example.com\n");
      expect(head).toContain("Date: Thu, 15 Jan 2026 12:00:00 +0000\n");
      const [, subject = ""] = /Subject: =\?UTF-8\?B\?(.*)\?=/.exec(head) ?? [];
      expect(Buffer.from(subject, "base64").toString()).toBe(MAIL.subject);
    });
  }

  test("is not sent where the certificate is not the server's, nor the password before that", async () => {
    for (const tls of ["starttls", "first"] as const) {
      const server = await MailServer.open({ tls, login: LOGIN });
      expect((await refusal(server, { trusts: false })).message).toMatch(/self-signed/);
      const other = await MailServer.open({ tls, login: LOGIN, isOther: true });
      expect((await refusal(other)).message).toMatch(/does not match certificate's altnames/);
      expect([...server.taken, ...other.taken]).toEqual([]);
      expect([...server.lines, ...other.lines].join("\n")).not.toMatch(/AUTH|MAIL/);
    }
  });

  test("is not sent where STARTTLS is not offered, or refused", async () => {
    const plain = await MailServer.open({});
    const url = `${plain.url}?starttls=required`;
    expect((await refusal(plain, { url })).message).toMatch(/refused STARTTLS: 502/);
    expect(plain.lines.map((line) => line.split(" ")[0])).toEqual(["EHLO", "STARTTLS"]);
    const refusing = await MailServer.open({ tls: "starttls", answers: { STARTTLS: "454 not now" } });
    const error = await refusal(refusing);
    expect([error.message, error.isTransient]).toEqual([
      "the mail server refused STARTTLS: 454 not now",
      true,
    ]);
  });

  test("ignores replies that an attacker adds before TLS begins", async () => {
    const injected = "250-injected\r\n250 AUTH PLAIN\r\n235 welcome\r\n";
    const server = await MailServer.open({ tls: "starttls", login: LOGIN, ways: "LOGIN", injected });
    const error: unknown = await send(server).catch((reason: unknown) => reason);
    expect(error === undefined || error instanceof SmtpError).toBe(true);
    // What was offered under TLS counts.
    expect(server.lines.filter((line) => line.startsWith("AUTH") && line !== "AUTH LOGIN")).toEqual([]);
    expect(server.taken.filter(({ isEncrypted }) => !isEncrypted)).toEqual([]);
  });

  test("sends no password without TLS to another machine, and accepts an empty password", async () => {
    const server = await MailServer.open({ login: { user: "token", password: "" } });
    await send(server);
    expect(server.taken).toHaveLength(1);
    const error = await refusal(server, { url: "smtp://ada:secret@192.0.2.1?starttls=never" });
    expect(error.message).toBe("the password is not sent without TLS");
  });

  test("never turns its address, subject or text into a header or a command", async () => {
    const server = await MailServer.open({});
    const sendThis = async (mail: Partial<Mail>): Promise<void> =>
      await sendMail(
        readMailServer(server.url)!,
        { ...MAIL, ...mail },
        { from: FROM, now: 0 },
        new AbortController().signal,
      );
    await expect(sendThis({ to: "a@b\r\nX: y" })).rejects.toThrow(/cannot be sent to this address/);
    const text = "\r\n.\r\nMAIL FROM:<x@y>\n.";
    await sendThis({ subject: `Hi\r\nBcc: ${"é".repeat(60)}`, text });
    expect(server.taken).toHaveLength(1);
    const [taken] = server.taken;
    expect(taken?.head.split("\n").filter((line) => /^(Bcc|X):/.test(line))).toEqual([]);
    expect(taken?.text).toBe("\r\n.\r\nMAIL FROM:<x@y>\r\n.");
    expect(server.lines.filter((line) => line.length > 78 || line.startsWith(".."))).toEqual([]);
  });

  test("tells why it was refused, and never what was sent", async () => {
    const refused: readonly (readonly [Record<string, string>, RegExp, boolean])[] = [
      [{ "": "554 go away" }, /refused the connection: 554 go away/, false],
      [{ MAIL: "550 not you" }, /refused the sender: 550 not you/, false],
      [{ RCPT: "450 greylisted" }, /refused the recipient: 450 greylisted/, true],
      [{ ".": `550 spam: ${MAIL.text.slice(2, 6)}` }, /refused the mail: 550$/, false],
      [{ EHLO: "what?", HELO: "what?" }, /something that is not SMTP/, true],
      [{ EHLO: `250-${"x".repeat(20_000)}` }, /(reply|response) is too (long|large)|maximum/i, true],
    ];
    for (const [answers, expected, isTransient] of refused) {
      const error = await refusal(await MailServer.open({ answers }));
      expect(error.message).toMatch(expected);
      expect([error.message, error.isTransient]).toEqual([error.message, isTransient]);
    }
    // This server repeats the password in its refusal.
    const server = await MailServer.open({ login: LOGIN });
    const url = server.url.replace("millrace:", "mallory:");
    const { message, code } = await refusal(server, { url });
    expect([message, code]).toEqual(["the mail server refused the login: 535", 535]);
    const hangingUp = await MailServer.open({ answers: { DATA: null } });
    expect((await refusal(hangingUp)).message).toMatch(/closed unexpectedly/);
  });

  test("ends when it is told to, however long the server is silent", async () => {
    const server = await MailServer.open({ answers: { "": "220-wait" } });
    const stop = new AbortController();
    const options = { from: FROM, now: 0 };
    const sent = sendMail(readMailServer(server.url)!, MAIL, options, stop.signal);
    await server.news.wait();
    stop.abort();
    await expect(sent).rejects.toThrow(/took too long/);
  });
});
