import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../support/without-descriptors.ts", import.meta.url));

test("a process for which no descriptors are left is refused, and the service lives on", async () => {
  const limited = `ulimit -n 256; exec "$0" "$1"`;
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", limited, process.execPath, SCRIPT]);
  expect(stdout).toBe("Error: no descriptors are left");
});
