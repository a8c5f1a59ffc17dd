import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { DirectoryBlobs } from "../../../src/blobs/directory-blobs.ts";
import { NotShared, endSharing, proveShared } from "../../../src/blobs/prove-shared.ts";
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
