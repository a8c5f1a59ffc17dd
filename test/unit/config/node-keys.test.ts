import { expect, test } from "vitest";
import { NODE_KEYS } from "../../../src/config/node-keys.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { verifies } from "../../verifies.ts";

verifies("nodes.labels", "labels are pairs of a short name and a short value, and few", () => {
  const labels = (text: string) =>
    readSettings({ flags: {}, env: { MILLRACE_NODE_LABELS: text } }).settings.nodeLabels;
  expect(labels("")).toEqual({});
  expect(labels("zone=eu-1a, disk=fast")).toEqual({ zone: "eu-1a", disk: "fast" });
  const many = Array.from({ length: 21 }, (_, at) => `l${at}=1`).join(",");
  const bad = [
    "zone",
    "zone=",
    "=a",
    "Zone=a",
    "zone=a b",
    "zone=a=b",
    "__proto__=a",
    "zone=\u001B[1m",
    many,
  ];
  for (const text of [...bad, `zone=${"a".repeat(64)}`]) expect(() => labels(text)).toThrow("labels");
  expect(labels(`zone=${"a".repeat(63)}`)).toEqual({ zone: "a".repeat(63) });
});

verifies("nodes.labels", "a name is one line of at most 100 characters", () => {
  const { read } = NODE_KEYS.nodeName.reader;
  expect([read("left"), read(""), read(null)]).toEqual(["left", null, null]);
  for (const name of ["a\nb", "\u001B[1m", "a".repeat(101), 5]) expect(read(name)).toBeUndefined();
});

test("a node's address has https and a port, and nothing else", () => {
  const { read } = NODE_KEYS.nodeUrl.reader;
  expect(read("https://10.0.0.5:4200/")).toBe("https://10.0.0.5:4200");
  expect(read("https://[fd00::5]:4200")).toBe("https://[fd00::5]:4200");
  for (const url of [
    "10.0.0.5:4200",
    "http://a:1",
    "https://a",
    "https://a:1/b",
    "https://u@a:1",
    "https://a:1?b",
  ])
    expect(read(url)).toBeUndefined();
});
