import { expect, test } from "vitest";
import { AddressRanges, clientAddress } from "../../../src/kit/ip-addresses.ts";
import { verifies } from "../../verifies.ts";

test("ranges hold the addresses of their networks, of either family", () => {
  const ranges = new AddressRanges(["10.0.0.0/8", "fd00::/8", "192.0.2.7/32"]);
  const held = ["10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1", "fd12::1", "192.0.2.7"];
  const free = ["11.0.0.0", "192.0.2.8", "fe00::1", "::10.0.0.1", "10", "example.com", ""];
  expect(held.filter((address) => !ranges.includes(address))).toEqual([]);
  expect(free.filter((address) => ranges.includes(address))).toEqual([]);
});

test("no ranges hold nothing", () => {
  expect(new AddressRanges([]).includes("10.0.0.1")).toBe(false);
});

const TRUSTED = new AddressRanges(["10.0.0.0/8", "fd00::/8"]);
const from = (remote: string, header: string | null) => clientAddress(remote, header, TRUSTED);

verifies("listener.trusted-proxies", "the rightmost address that no trusted proxy has counts", () => {
  expect(from("10.0.0.1", "192.0.2.9")).toBe("192.0.2.9");
  expect(from("10.0.0.1", "198.51.100.1, 192.0.2.9, 10.0.0.2 , 10.9.9.9")).toBe("192.0.2.9");
  expect(from("::ffff:10.0.0.1", "2001:db8::7")).toBe("2001:db8::7");
  expect(from("fd00::1", "203.0.113.5")).toBe("203.0.113.5");
});

verifies("listener.trusted-proxies", "who is no trusted proxy forwards for nobody", () => {
  for (const header of [null, "", "127.0.0.1", "10.0.0.1", "10.0.0.1, 10.0.0.2"]) {
    expect(from("192.0.2.1", header)).toBe("192.0.2.1");
  }
});

test("what is no address ends the chain, ports do not", () => {
  expect(from("10.0.0.1", null)).toBe("10.0.0.1");
  expect(from("10.0.0.1", "")).toBe("10.0.0.1");
  expect(from("10.0.0.1", "192.0.2.9, unknown, 10.0.0.2")).toBe("10.0.0.2");
  expect(from("10.0.0.1", "192.0.2.9, , 10.0.0.2")).toBe("10.0.0.2");
  expect(from("10.0.0.1", "192.0.2.9:4711")).toBe("192.0.2.9");
  expect(from("10.0.0.1", "[2001:db8::7]:4711")).toBe("2001:db8::7");
  expect(from("10.0.0.1", "[2001:db8::7]")).toBe("2001:db8::7");
  expect(from("10.0.0.1", "10.0.0.3,10.0.0.2")).toBe("10.0.0.3");
});

test("a header of any length costs no more than its right end", () => {
  const header = `${"1.2.3.4, ".repeat(100_000)}192.0.2.9`;
  expect(from("10.0.0.1", header)).toBe("192.0.2.9");
});
