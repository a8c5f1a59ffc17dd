import type * as os from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { findRuntimeDir, makeRuntimeDir, runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { scratchDirectory } from "../../support/command-line.ts";

vi.mock("node:os", async (actual) => ({
  ...(await actual<typeof os>()),
  userInfo: () => {
    throw new Error("no such user");
  },
}));

test("a user without a name, as in some containers, has a runtime directory", () => {
  const dir = path.join(scratchDirectory(), path.basename(runtimeDir("/data")));
  makeRuntimeDir(dir);
  expect(path.basename(dir)).toMatch(new RegExp(`^millrace-${process.getuid?.()}-`));
  expect(findRuntimeDir(dir)).toBe(dir);
});
