import { describe, expect, test } from "vitest";
import { AddressRanges } from "../../../../src/kit/ip-addresses.ts";
import { AppError, ERRORS } from "../../../../src/model/errors.ts";
import { isForbidden, parseWebhookUrl } from "../../../../src/runs/webhooks/target.ts";
import { FORBIDDEN_URLS } from "../../../support/forbidden-urls.ts";
import { verifies } from "../../../verifies.ts";

const NOTHING = new AddressRanges([]);
const LOOPBACK = new AddressRanges(["127.0.0.0/8", "::1/128"]);
const PRIVATE = new AddressRanges(["10.0.0.0/8", "fd00::/8"]);

/** What is wrong with the address, in the words of the 422; null when nothing is. */
function faultOf(text: string, allow = NOTHING): string | null {
  try {
    parseWebhookUrl(text, allow);
    return null;
  } catch (error) {
    if (error instanceof AppError && error.code === "invalid_webhook") return error.message;
    throw error;
  }
}

verifies(
  "webhook.submit-check",
  "bad syntax, private addresses in any spelling and local names are 422",
  () => {
    expect(ERRORS.invalid_webhook.status).toBe(422);
    expect(FORBIDDEN_URLS.length).toBeGreaterThan(100);
    const accepted = FORBIDDEN_URLS.filter((url) => faultOf(url.replace("PORT", "8080")) === null);
    expect(accepted).toEqual([]);
  },
);

verifies("webhook.schemes", "only http and https are accepted, and only without credentials", () => {
  expect(faultOf("http://example.com/hook")).toBe(null);
  expect(faultOf("HTTPS://example.com:8443/hook?a=b#c")).toBe(null);
  expect(faultOf("ftp://example.com/hook")).toMatch(/http:\/\/ or https:\/\//);
  expect(faultOf("https://user:pass@example.com/")).toMatch(/credentials/);
});

test.each([
  "https://example.com",
  "http://example.com./hook",
  "https://hooks.example.com:8443/a/b?c=d&e=%20f",
  "http://8.8.8.8/",
  "http://[2606:4700:4700::1111]:80/",
  "http://[64:ff9b::8.8.8.8]/",
  "http://[::ffff:8.8.8.8]/",
  "https://bücher.example/",
  "https://my_host.example.com/",
  "https://localhost.example.com/",
  "https://internal.example.com/",
  "http://127.0.0.1.nip.io/",
  `https://example.com/${"x".repeat(2_000)}`,
])("%s is accepted", (url) => {
  expect(faultOf(url)).toBe(null);
});

describe("ranges that are allowed", () => {
  test.each([
    ["http://127.0.0.1:9000/", LOOPBACK, true],
    ["http://[::1]:9000/", LOOPBACK, true],
    ["http://[::ffff:127.0.0.1]/", LOOPBACK, true],
    ["http://localhost:9000/", LOOPBACK, true],
    ["http://a.localhost/", LOOPBACK, true],
    ["http://10.0.0.1/", LOOPBACK, false],
    ["http://0.0.0.0/", LOOPBACK, false],
    ["http://receiver/", LOOPBACK, false],
    ["http://metadata.google.internal/", LOOPBACK, false],
    ["http://10.1.2.3/", PRIVATE, true],
    ["http://[fd12::1]/", PRIVATE, true],
    ["http://receiver:8080/", PRIVATE, true],
    ["http://receiver.internal/", PRIVATE, true],
    ["http://localhost/", PRIVATE, false],
    ["http://127.0.0.1/", PRIVATE, false],
    ["http://192.168.0.1/", PRIVATE, false],
    ["http://[64:ff9b::10.0.0.1]/", PRIVATE, false],
  ])("%s with %o: %s", (url, allow, isAccepted) => {
    expect(faultOf(url, allow) === null).toBe(isAccepted);
  });
});

test.each([
  ["127.0.0.1", true],
  ["::1", true],
  ["::", true],
  ["::ffff:10.0.0.1", true],
  ["::ffff:8.8.8.8", false],
  ["8.8.8.8", false],
  ["64:ff9b::", true],
  ["64:ff9b::1", true],
  ["64:ff9b::8.8.8.8", false],
  ["64:ff9b::c0a8:1", true],
  ["2606:4700:4700::1111", false],
  ["fe80::1%eth0", true],
  ["2606:4700:4700::1111%eth0", true],
  ["example.com", true],
  ["", true],
])("as an address to connect to, %s: forbidden %s", (address, expected) => {
  expect(isForbidden(address, NOTHING)).toBe(expected);
});
