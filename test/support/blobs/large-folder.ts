import { mkdtempSync, rmSync } from "node:fs";
import { rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { createLog } from "../../../src/kit/log.ts";
import { LargePayloads, type LargePayloadsParts } from "../../../src/runs/large-payloads.ts";

/** A folder for large payloads, which may be away for a while, as a share that is not mounted. */
export async function largeFolder() {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-large-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const place = path.join(folder, "blobs");
  const blobs = await DirectoryBlobs.open(place);
  const basics = {
    blobs,
    place: { check: async () => undefined },
    log: createLog("silent"),
    isFirst: () => true,
  };
  return {
    blobs,
    large: (parts: Pick<LargePayloadsParts, "store" | "clock">) => new LargePayloads({ ...basics, ...parts }),
    goAway: () => rename(place, `${place}.away`),
    comeBack: () => rename(`${place}.away`, place),
  };
}
