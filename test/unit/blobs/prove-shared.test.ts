import { mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { NotShared, endSharing, forgetGone, proveShared } from "../../../src/blobs/prove-shared.ts";
import { verifies } from "../../verifies.ts";

const instanceId = "6f1c36a5-9e2a-4f52-8f0c-6d2f3f3f9d01";

async function directory(): Promise<DirectoryBlobs> {
  const made = mkdtempSync(path.join(tmpdir(), "millrace-shared-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return await DirectoryBlobs.open(made);
}

verifies(
  "blobs.shared",
  "nodes of one directory find each other, and one with another is refused",
  async () => {
    const [shared, other] = [await directory(), await directory()];
    await proveShared(shared, { instanceId, nodeId: "n-1", others: [] });
    await proveShared(shared, { instanceId, nodeId: "n-2", others: ["n-1", "n-2"] });
    await proveShared(shared, { instanceId, nodeId: "n-1", others: ["n-1", "n-2"] });
    const refused = proveShared(other, { instanceId, nodeId: "n-3", others: ["n-1", "n-2"] });
    await expect(refused).rejects.toThrow(NotShared);
    await expect(refused).rejects.toThrow(
      `${other.place} is not where the services n-1, n-2 of this installation keep their blobs: set MILLRACE_BLOBS to a directory`,
    );
  },
);

verifies("blobs.shared", "notes of another installation, and of who has left, prove nothing", async () => {
  const shared = await directory();
  const nodeId = "n-1";
  await proveShared(shared, { instanceId: "another", nodeId, others: [] });
  const second = { instanceId, nodeId: "n-2", others: [nodeId] };
  await expect(proveShared(shared, second)).rejects.toThrow("is not where the service n-1");
  await proveShared(shared, { instanceId, nodeId, others: [] });
  await proveShared(shared, second);
  await endSharing(shared, { instanceId, nodeId });
  await expect(proveShared(shared, second)).rejects.toThrow("is not where the service n-1");
});

verifies("blobs.notes.left", "the note of a node that is gone goes when it is old", async () => {
  const shared = await directory();
  for (const nodeId of ["n-1", "n-2", "n-3"]) await proveShared(shared, { instanceId, nodeId, others: [] });
  await proveShared(shared, { instanceId: "another", nodeId: "n-2", others: [] });
  const age = (name: string): void => utimesSync(path.join(shared.place, "notes", name), 0, 0);
  for (const name of [`${instanceId}/n-1`, `${instanceId}/n-2`, "another/n-2"]) age(name);
  await forgetGone(shared, { instanceId, living: ["n-1"], before: Date.UTC(2020, 0, 1) });
  const notes = [`${instanceId}/n-1`, `${instanceId}/n-2`, `${instanceId}/n-3`, "another/n-2"];
  const left = await Promise.all(notes.map((name) => shared.readNote(name)));
  expect(left).toEqual(["n-1", null, "n-3", "n-2"]);
  await forgetGone(shared, { instanceId: "nobody", living: [], before: Date.UTC(2020, 0, 1) });
});
