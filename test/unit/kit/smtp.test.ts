import { expect, test } from "vitest";
import { isMailAddress, readMailServer, readSender } from "../../../src/kit/smtp.ts";

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

test("a sender is an address that needs no quoting", () => {
  expect(readSender("no-reply@example.com")).toEqual({ address: "no-reply@example.com", name: null });
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
});
