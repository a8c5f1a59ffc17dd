import { expect } from "vitest";
import { packagesThatDiffer } from "../../scripts/release.ts";
import { verifies } from "../verifies.ts";

verifies("packaging.release", "it is built with the packages of the lockfile, and with no others", () => {
  const locked = {
    packages: {
      "": { version: "1.0.0" },
      "node_modules/one": { version: "1.0.0" },
      "node_modules/one/node_modules/@two/three": { version: "2.0.0" },
      "node_modules/other-machine": { version: "1.0.0", optional: true as const },
    },
  };
  const { "node_modules/other-machine": _, ...here } = locked.packages;
  expect(packagesThatDiffer(locked, { packages: here })).toEqual([]);
  expect(packagesThatDiffer(locked, locked)).toEqual([]);
  const stale = {
    "node_modules/one": { version: "0.9.0" },
    "node_modules/other-machine": { version: "0.9.0" },
  };
  expect(packagesThatDiffer(locked, { packages: stale })).toEqual(["one", "@two/three", "other-machine"]);
});
