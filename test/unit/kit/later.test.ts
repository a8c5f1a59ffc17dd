import { expect, test } from "vitest";
import { Later } from "../../../src/kit/later.ts";

test("a value that is not known yet cannot be read, unless there is one to begin with", () => {
  const port = new Later<number>("the port");
  expect(() => port.value).toThrow("the port: read before it was known");
  port.set(0);
  expect(port.value).toBe(0);
  const node = new Later<string | null>("the node", null);
  expect(node.value).toBeNull();
  node.set("n-1");
  expect(node.value).toBe("n-1");
});
