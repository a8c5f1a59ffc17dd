import { expect, test } from "vitest";

import * as readers from "../../../src/config/readers.ts";
import { parseSize } from "../../../src/kit/units.ts";

test.each([
  ["32MiB", 33_554_432],
  ["4 MB", 4_000_000],
  ["10GB", 10_000_000_000],
  ["1.5kb", 1500],
  ["2TiB", 2 ** 41],
  ["512", 512],
  ["7B", 7],
])("reads the size %j as %d bytes", (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each(["", "MB", "-1MB", "1e9", "5 parsecs", "0.5B", "1.2.3MB", "9999999999999999TB", "Infinity"])(
  "refuses the size %j",
  (text) => {
    expect(parseSize(text)).toBeNull();
  },
);

test("a whole number takes its bounds and nothing outside or in between", () => {
  const reader = readers.integer(1, 5);
  expect([1, 5].map(reader.read)).toEqual([1, 5]);
  for (const raw of [0, 6, 1.5, Number.NaN, Infinity, 3n, "3", true, null, [3]]) {
    expect(reader.read(raw)).toBeUndefined();
  }
  expect(reader.expects).toBe("a whole number from 1 to 5");
});

test("minus zero is read as zero", () => {
  expect(Object.is(readers.integer(0, 5).read(-0), 0)).toBe(true);
});

test("true and false are taken, and nothing that merely looks like them", () => {
  expect([true, false].map(readers.boolean().read)).toEqual([true, false]);
  for (const raw of ["true", 1, 0, null, "yes", [true], {}]) {
    expect(readers.boolean().read(raw)).toBeUndefined();
  }
});

test("a duration is seconds or text, within its bounds", () => {
  const reader = readers.duration("1s", "12h");
  expect(["1s", "12h", 900, "900", 1.5].map(reader.read)).toEqual([1, 43_200, 900, 900, 1.5]);
  for (const raw of [0, "0s", -5, 43_201, "13h", 1e9, "15 minutes", Number.NaN, 5n, true]) {
    expect(reader.read(raw)).toBeUndefined();
  }
});

test("a size is bytes or text, within its bounds", () => {
  const reader = readers.size("1KiB", "1MiB");
  expect(["1KiB", 2048, "1 MiB"].map(reader.read)).toEqual([1024, 2048, 1_048_576]);
  for (const raw of [1023, "2MiB", 1024.5, "much"]) expect(reader.read(raw)).toBeUndefined();
});

test("one line of text holds no control characters and no half characters", () => {
  const reader = readers.line(10);
  expect(reader.read("a b")).toBe("a b");
  for (const raw of ["", "  ", "a\nb", "a\0b", "\ud800", "x".repeat(11), 5]) {
    expect(reader.read(raw)).toBeUndefined();
  }
  expect(readers.block(10).read("a\n\tb")).toBe("a\n\tb");
  for (const raw of ["", " \n", "a\0b", "x".repeat(11)]) expect(readers.block(10).read(raw)).toBeUndefined();
});

test("a list is refused for one bad item or too many of them", () => {
  const reader = readers.listOf("numbers", readers.integer(0, 9), 3);
  expect(reader.read([1, 2])).toEqual([1, 2]);
  expect(reader.read([])).toEqual([]);
  for (const raw of [[1, 10], [1, 2, 3, 4], 1, "1,2", { 0: 1 }]) expect(reader.read(raw)).toBeUndefined();
  expect(reader.fromText?.(" a, b ,,c")).toEqual(["a", "b", "c"]);
});

test("one item may stand for a list of it, but not an empty list", () => {
  const reader = readers.oneOrMore("text", readers.line(9), 3);
  expect(reader.read("CPU")).toEqual(["CPU"]);
  expect(reader.read(["A", "B"])).toEqual(["A", "B"]);
  expect(reader.read([])).toBeUndefined();
});

test.each([
  ["10.0.0.0/8", "10.0.0.0/8"],
  ["127.0.0.1", "127.0.0.1/32"],
  ["::1", "::1/128"],
  ["fd00::/8", "fd00::/8"],
  ["0.0.0.0/0", "0.0.0.0/0"],
])("takes the range %s", (text, range) => {
  expect(readers.cidr().read(text)).toBe(range);
});

test.each([
  "10.0.0.0/33",
  "fd00::/129",
  "10.0.0/8",
  "10.0.0.0/",
  "10.0.0.0/8/9",
  "fe80::1%eth0",
  "host/8",
  "/8",
  "",
])("refuses the range %j", (text) => {
  expect(readers.cidr().read(text)).toBeUndefined();
});

test("a public address loses its trailing slashes and keeps its path", () => {
  expect(readers.publicUrl().read("https://example.com/")).toBe("https://example.com");
  expect(readers.publicUrl().read("http://example.com:8080/api//")).toBe("http://example.com:8080/api");
});

test.each([
  "example.com",
  "ftp://example.com",
  "https://",
  "https://u:p@example.com",
  "https://a/?q",
  "https://a/#f",
  "javascript:x",
  "https:\\\\a",
  "http:example.com",
])("refuses the public address %j", (text) => {
  expect(readers.publicUrl().read(text)).toBeUndefined();
});
