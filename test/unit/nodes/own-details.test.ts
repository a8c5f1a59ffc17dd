import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, hostname, tmpdir, totalmem } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { VERSION } from "../../../src/config/release.ts";
import { ownDetails } from "../../../src/nodes/own-details.ts";
import { verifies } from "../../verifies.ts";

verifies("nodes.details", "a node says what it is called, what it has, and where it lives", () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-details-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const details = ownDetails({ dataDir, nodeName: null, nodeLabels: { zone: "a" } }, 5);
  expect(details).toEqual({
    name: hostname(),
    home: expect.stringMatching(/^[\da-f-]{36}$/),
    labels: { zone: "a" },
    capacity: { cpus: availableParallelism(), memoryBytes: expect.any(Number) },
    release: VERSION,
    startedAt: 5,
  });
  expect(details.capacity.memoryBytes).toBeGreaterThan(0);
  expect(details.capacity.memoryBytes).toBeLessThanOrEqual(totalmem());
  // Another start on the same directory.
  const again = ownDetails({ dataDir, nodeName: "left", nodeLabels: {} }, 6);
  expect([again.name, again.home]).toEqual(["left", details.home]);
});
