import { expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { retainedBytes } from "../../support/retained-bytes.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";

const MAIN = `
import os

def flood(mebibytes):
    line = "x" * 1023
    for _ in range(mebibytes * 1024):
        print(line)
    return mebibytes

def flood_raw(mebibytes):
    for _ in range(mebibytes):
        os.write(2, b"y" * (1 << 20))
    os.write(2, b"\\n")
    return mebibytes
`;

const service = sharedService({ app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" } }, WITHOUT_WALLS);

test("a flood of 100 MB of prints does not block the run, nor fill the service's memory", async () => {
  service().logs.length = 0;
  const before = retainedBytes();
  let lines = 0;
  let keptBytes = 0;
  // Nobody keeps the lines: a test that hoarded them would measure itself.
  service().logs.push = () => {
    lines += 1;
    if (lines % 10_000 === 0) keptBytes = Math.max(keptBytes, retainedBytes() - before);
    return 0;
  };
  try {
    for (const [functionName, mebibytes] of [
      ["flood", 60],
      ["flood_raw", 40],
    ] as const) {
      const { status, json } = await service().call("app", { mebibytes }, { functionName });
      expect([status, json.result]).toEqual([200, mebibytes]);
    }
    await until("all lines are here", () => lines >= 60 * 1024 + 40 * 16 - 1);
  } finally {
    service().logs.push = Array.prototype.push;
  }
  // What waits to be stored is 32 MiB at most.
  expect(keptBytes).toBeLessThan(48 * 1024 * 1024);
});
