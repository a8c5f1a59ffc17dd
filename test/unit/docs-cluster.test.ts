import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../src/config/settings.ts";
import { requireSharedVolumes } from "../../src/host/storage/place-volumes.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

verifies(
  "nodes.document.settings",
  "the settings in docs/cluster.md are complete: with them a node starts beside others",
  () => {
    const text = readFileSync(path.join(REPOSITORY, "docs", "cluster.md"), "utf8");
    const [, example = ""] = /```ini\n(.*?)```/s.exec(text) ?? [];
    const env = Object.fromEntries(
      example.split("\n").flatMap((line) => (line.startsWith("MILLRACE_") ? [splitOnce(line)] : [])),
    );
    const { settings } = readSettings({ flags: {}, env });
    expect(settings.blobs?.kind).toBe("s3");
    expect(() => requireSharedVolumes(settings, ["another"])).not.toThrow();
  },
);

function splitOnce(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}
