import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../support/without-descriptors.ts", import.meta.url));

/** A tool for containers that writes down what it was told. */
const TOOL = '#!/bin/sh\necho "$@" > "$0.told"\n';

test.each([
  ["kept", ""],
  ["module", ""],
  ["container", ""],
  // Its container was made, and is removed.
  ["attached", ", rm -f -v made"],
])(
  "a %s process for which no descriptors are left is refused, and the service lives on",
  async (way, more) => {
    const folder = await mkdtemp(path.join(tmpdir(), "millrace-tool-"));
    onTestFinished(async () => await rm(folder, { recursive: true }));
    const tool = path.join(folder, "tool");
    await writeFile(tool, TOOL, { mode: 0o700 });
    const limited = `ulimit -n 256; exec "$0" "$@"`;
    const args = ["-c", limited, process.execPath, SCRIPT, way, tool];
    const { stdout } = await promisify(execFile)("/bin/sh", args);
    expect(stdout).toBe(`Error: no descriptors are left${more}`);
  },
);
