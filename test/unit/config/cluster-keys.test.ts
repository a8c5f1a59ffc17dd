import { expect, test } from "vitest";
import { KUBERNETES_KEYS, NODE_KEYS } from "../../../src/config/cluster-keys.ts";
import { verifies } from "../../verifies.ts";

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

verifies("buildkit.logins", "a registry is a host that is not the pod itself, with a path", () => {
  const { reader } = KUBERNETES_KEYS.registry;
  for (const name of ["registry.internal", "registry:5000/a/b_c", "10.0.0.7:5000/millrace"])
    expect(reader.read(name)).toBe(name);
  const bad = ["localhost", "localhost:5000/millrace", "127.0.0.1:5000", "millrace", "a.b/UP", "a.b/x:1"];
  for (const name of [...bad, "https://a.b", "a.b/../c", "a.b//c"]) expect(reader.read(name)).toBeUndefined();
});
