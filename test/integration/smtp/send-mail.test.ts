import { describe, expect, test } from "vitest";
import { SmtpError } from "../../../src/kit/smtp/dialogue.ts";
import { readMailServer } from "../../../src/kit/smtp/mail-server.ts";
import { readSender } from "../../../src/kit/smtp/message.ts";
import { sendMail } from "../../../src/kit/smtp/send-mail.ts";
import { MAIL_CERTIFICATE, OTHER_CERTIFICATE } from "../../support/mail-certificate.ts";
import { MailServer } from "../../support/mail-server.ts";
import type { MailServerOptions } from "../../support/mail-server.ts";
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
      expect(head).toContain('From: "Millrace" <no-reply@example.com>\nTo: ada@example.com\n');
      expect(head).toContain("Date: Thu, 15 Jan 2026 12:00:00 +0000\n");
      const [, subject = ""] = /Subject: =\?utf-8\?B\?(.*)\?=/.exec(head) ?? [];
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
    expect((await refusal(plain, { url })).message).toBe("the mail server offers no STARTTLS");
    expect(plain.lines.map((line) => line.split(" ")[0])).toEqual(["EHLO"]);
    const refusing = await MailServer.open({ tls: "starttls", answers: { STARTTLS: "454 not now" } });
    const error = await refusal(refusing);
    expect([error.message, error.isPassing]).toEqual(["the mail server refused STARTTLS: 454 not now", true]);
  });

  test("is not sent where somebody in between speaks for the server before TLS begins", async () => {
    const server = await MailServer.open({ tls: "starttls", injected: "250 AUTH PLAIN\r\n" });
    expect((await refusal(server)).message).toMatch(/sent data out of turn|no connection/);
    expect(server.taken).toEqual([]);
  });

  test("tells why it was refused, and never what was sent", async () => {
    const refused: readonly (readonly [Record<string, string>, RegExp, boolean])[] = [
      [{ "": "554 go away" }, /refused the connection: 554 go away/, false],
      [{ MAIL: "550 not you" }, /refused the sender: 550 not you/, false],
      [{ RCPT: "450 greylisted" }, /refused the recipient: 450 greylisted/, true],
      [{ ".": `550 spam: ${MAIL.text.slice(2, 6)}` }, /refused the mail: 550$/, false],
      [{ EHLO: "what?" }, /something that is not SMTP/, true],
      [{ EHLO: `250-${"x".repeat(20_000)}` }, /reply is too long/, true],
    ];
    for (const [answers, expected, isPassing] of refused) {
      const error = await refusal(await MailServer.open({ answers }));
      expect(error.message).toMatch(expected);
      expect([error.message, error.isPassing]).toEqual([error.message, isPassing]);
    }
    // This server repeats the password in its refusal.
    const server = await MailServer.open({ login: LOGIN });
    const url = server.url.replace("millrace:", "mallory:");
    const { message, code } = await refusal(server, { url });
    expect([message, code]).toEqual(["the mail server refused the login: 535", 535]);
    const hangingUp = await MailServer.open({ answers: { DATA: null } });
    expect((await refusal(hangingUp)).message).toMatch(/closed the connection/);
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
