import { expect, test } from "vitest";
import { readMailServer } from "../../../src/kit/smtp/mail-server.ts";
import { isMailAddress, mailBytes, readSender } from "../../../src/kit/smtp/message.ts";

test("the address of a mail server says how it is reached", () => {
  const login = { user: "ada", password: "p@ss" };
  expect(readMailServer("smtps://ada:p%40ss@mail.example.com")).toEqual({
    host: "mail.example.com",
    port: 465,
    tls: "first",
    login,
  });
  expect(readMailServer("smtp://mail.example.com:2525")).toEqual({
    host: "mail.example.com",
    port: 2525,
    tls: "starttls",
    login: null,
  });
  expect(readMailServer("smtp://localhost")).toMatchObject({ port: 587, tls: "never" });
  expect(readMailServer("smtp://[::1]:25/")).toMatchObject({ host: "::1", port: 25, tls: "never" });
  expect(readMailServer("smtp://mailpit:1025?starttls=never")).toMatchObject({ tls: "never" });
  expect(readMailServer("smtp://127.0.0.1?starttls=required")).toMatchObject({ tls: "starttls" });
  for (const bad of [
    "http://mail.example.com",
    "smtp://",
    "mail.example.com",
    "smtp://mail.example.com/path",
    "smtp://mail.example.com?tls=no",
    "smtp://mail.example.com?starttls=maybe",
    "smtps://mail.example.com?starttls=never",
    "smtp://a%00b:c@mail.example.com",
    "smtp://a%zz@mail.example.com",
  ]) {
    expect([bad, readMailServer(bad)]).toEqual([bad, null]);
  }
});

test("nothing in a mail becomes a header or a command", () => {
  const from = readSender("no-reply@example.com")!;
  expect(readSender("Ada L. <ada@example.com>")).toEqual({ address: "ada@example.com", name: "Ada L." });
  for (const bad of [
    "ada",
    'A "B" <a@b.example>',
    "a@b.example, c@d.example",
    "<a@b.example",
    "é@b.example",
  ]) {
    expect([bad, readSender(bad)]).toEqual([bad, null]);
  }
  for (const bad of ["a@b\r\nDATA", "a@b c", "a@<b>", "a", "@", `${"a".repeat(255)}@b.example`]) {
    expect([bad, isMailAddress(bad)]).toEqual([bad, false]);
  }
  const to = "ada@example.com";
  expect(() => mailBytes({ to: "a@b\r\nX: y", subject: "", text: "" }, from, 0)).toThrow(
    /cannot be sent to this address/,
  );
  const text = "\r\n.\r\nMAIL FROM:<x@y>\n.";
  const bytes = mailBytes({ to, subject: `Hi\r\nBcc: ${"é".repeat(60)}`, text }, from, 0);
  const [head = "", body = ""] = bytes.split("\r\n\r\n");
  expect(head.split("\r\n").filter((line) => /^(Bcc|X):/.test(line))).toEqual([]);
  for (const line of bytes.split("\r\n")) {
    expect(line.length).toBeLessThanOrEqual(78);
    expect(line.startsWith(".")).toBe(false);
  }
  expect(Buffer.from(body, "base64").toString()).toBe("\r\n.\r\nMAIL FROM:<x@y>\r\n.");
});
