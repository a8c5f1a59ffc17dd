import { expect, test } from "vitest";
import { AddressRanges } from "../../../src/kit/address-ranges.ts";

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
