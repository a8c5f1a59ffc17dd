import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, hostname, tmpdir, totalmem } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { VERSION } from "../../../src/config/package-files.ts";
import { ownDetails } from "../../../src/nodes/own-node.ts";
import { sampleGpu } from "../../support/gpus/sample-gpus.ts";
import { verifies } from "../../verifies.ts";

verifies("nodes.list", "a node says what it is called, what it has, and where it lives", () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-details-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const later = { reached: {}, managementPort: () => 4100 };
  const details = ownDetails({ dataDir, nodeName: null }, 5, later)();
  expect(details).toEqual({
    name: hostname(),
    home: expect.stringMatching(/^[\da-f-]{36}$/),
    capacity: { cpus: availableParallelism(), memoryBytes: expect.any(Number) },
    release: VERSION,
    startedAt: 5,
    gpus: [],
    managementAddresses: expect.any(Array),
  });
  const [first = ""] = details.managementAddresses;
  expect(first).toMatch(/^(?:[\d.]+|\[[\da-f:]+\]):4100$/);
  expect(details.capacity.memoryBytes).toBeGreaterThan(0);
  expect(details.capacity.memoryBytes).toBeLessThanOrEqual(totalmem());
  // Another start on the same directory.
  const again = ownDetails({ dataDir, nodeName: "left" }, 6, later)();
  expect([again.name, again.home]).toEqual(["left", details.home]);
  const gpus = () => [sampleGpu(0, { model: "T4", memoryBytes: 16e9 })];
  const equipped = ownDetails({ dataDir, nodeName: null }, 5, { ...later, gpus })();
  expect(equipped.gpus).toEqual([{ model: "T4", memoryBytes: 16e9 }]);
});
