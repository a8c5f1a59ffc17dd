import { expect } from "vitest";
import {
  hostCookie,
  otherCookies,
  responseHeaders,
  responseTrailers,
} from "../../../../src/gateway/proxy/headers.ts";
import { verifies } from "../../../verifies.ts";

const OWN = { isOnAppHost: true };
const SHARED = { isOnAppHost: false };

verifies(
  ["origins.headers", "cookies.apps"],
  "handshakes and trailers say nothing that the headers of a response may not",
  () => {
    const headers = [
      ["Service-Worker-Allowed", "/"],
      ["Clear-Site-Data", "*"],
      ["Set-Cookie", "a=1; Domain=example.com"],
      ["Set-Cookie", "__Host-millrace_refresh=x"],
      ["X-Kept", "1"],
    ].flat();
    const handshake = { status: 101, headers, length: null, isReusable: false };
    const passed = (place: typeof OWN) => responseHeaders(handshake, false, place).headers;
    expect(passed(SHARED)).toEqual(["Set-Cookie", "a=1", "X-Kept", "1"]);
    expect(passed(OWN)).toEqual(["Service-Worker-Allowed", "/", "Set-Cookie", "a=1", "X-Kept", "1"]);
    expect(responseTrailers(headers, SHARED)).toEqual(["X-Kept", "1"]);
    expect(responseTrailers(headers, OWN)).toEqual(["Service-Worker-Allowed", "/", "X-Kept", "1"]);
  },
);

/** How cookies of ours can be written, and what browsers make them of. */
const OURS = [
  "millrace_refresh=x",
  "__Host-millrace_refresh=x",
  "__Secure-millrace_refresh=x",
  "__HOST-Millrace_refresh=x",
  "=millrace_refresh=x",
  " = millrace_refresh=x",
  "==millrace_refresh=x",
  "=__Host-millrace_refresh=x",
  "\tmillrace_refresh=x",
  "millrace_refresh",
];
const OTHERS = [
  "a=1",
  "my_millrace_refresh=1",
  "a=millrace_refresh",
  "__Host-a=1",
  "millrace=1",
  "x-millrace_a=1",
];

verifies("cookies.apps", "of a request's cookies an app gets those that are not ours", () => {
  for (const own of OURS) {
    expect([own, otherCookies(own)]).toEqual([own, ""]);
    expect([own, otherCookies(`a=1;${own}; b=2`)]).toEqual([own, "a=1; b=2"]);
  }
  for (const other of OTHERS) expect([other, otherCookies(other)]).toEqual([other, other]);
  expect(otherCookies("a=1;b=2;  c")).toBe("a=1;b=2;  c");
});

verifies("cookies.apps", "an app sets no cookie of ours", () => {
  for (const own of OURS)
    expect([own, hostCookie(`${own}; Path=/v2/session/refresh; Secure`)]).toEqual([own, null]);
  for (const other of OTHERS)
    expect([other, hostCookie(`${other}; Path=/`)]).toEqual([other, `${other}; Path=/`]);
});

verifies("origins.domain", "no cookie of an app is for another host", () => {
  for (const domain of [
    "; Domain=example.com",
    ";domain=example.com",
    "; DOMAIN = .example.com",
    ";\tDomain\t=\texample.com",
    "; Domain=a.example.com; Domain=example.com",
    "; Domain=",
    "; Domain",
  ]) {
    expect([domain, hostCookie(`a=1; Path=/${domain}; Secure`)]).toEqual([domain, "a=1; Path=/; Secure"]);
    expect([domain, hostCookie(`a=1${domain}`)]).toEqual([domain, "a=1"]);
  }
  for (const kept of [
    "a=domain; Path=/domain=x",
    "domain=1; Path=/",
    "a=1; X-Domain=x",
    "Domain=example.com",
  ])
    expect(hostCookie(kept)).toBe(kept);
});
