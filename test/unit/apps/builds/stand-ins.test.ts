import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import {
  dropStandIn,
  fetchedEnvironment,
  hasEnvironment,
  knownStandIn,
  readBlobRecord,
  releaseEnvironments,
  sharedStandIn,
  writeBlobRecord,
} from "../../../../src/apps/builds/environments.ts";
import type { BuildSite } from "../../../../src/apps/builds/site.ts";
import { verifies } from "../../../verifies.ts";

const RECORD = { environmentBlob: "f".repeat(64), environmentBytes: 1, environmentTag: null, putAt: 1 };

function environment(): string {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-stand-in-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return path.join(root, "p-1-key");
}

function site(buildId: string): BuildSite {
  // oxlint-disable-next-line no-unsafe-type-assertion
  return { buildId, say: () => {}, signal: new AbortController().signal } as unknown as BuildSite;
}

verifies("pod-builds.here", "what only tells of a blob is none where apps run on this machine", async () => {
  const folder = environment();
  await knownStandIn(folder, (to) => writeBlobRecord(to, RECORD));
  expect([hasEnvironment(folder, true), hasEnvironment(folder, false)]).toEqual([true, false]);
  const wasFetched = await fetchedEnvironment(folder, null, async () => {
    mkdirSync(path.join(folder, "bin"));
    writeFileSync(path.join(folder, "bin", "python"), "");
  });
  expect([wasFetched, hasEnvironment(folder, false), readBlobRecord(folder)]).toEqual([true, true, null]);
});

verifies(
  "pod-builds.reuse",
  "what is not true any more goes, but not while a build relies on it",
  async () => {
    const folder = environment();
    const isOld = (): boolean => readBlobRecord(folder)?.putAt === RECORD.putAt;
    await sharedStandIn(folder, site("one"), (to) => writeBlobRecord(to, RECORD));
    await dropStandIn(folder, isOld);
    expect(readBlobRecord(folder)).toEqual(RECORD);
    releaseEnvironments("one");
    await dropStandIn(folder, isOld);
    expect(existsSync(folder)).toBe(false);

    await knownStandIn(folder, (to) => writeBlobRecord(to, RECORD));
    await dropStandIn(folder, isOld);
    const built = Promise.withResolvers<void>();
    const making = sharedStandIn(folder, site("two"), async (to) => {
      await built.promise;
      await writeBlobRecord(to, { ...RECORD, putAt: 2 });
    });
    const dropping = dropStandIn(folder, isOld);
    built.resolve();
    await Promise.all([making, dropping]);
    releaseEnvironments("two");
    expect(readBlobRecord(folder)?.putAt).toBe(2);
  },
);
