import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { billOfMaterials, packagesBelow } from "../../scripts/bill-of-materials.ts";
import { packagesThatDiffer } from "../../scripts/release.ts";
import { REPOSITORY } from "../support/source-files.ts";
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

verifies(
  "packaging.release",
  "the bill of materials has what is installed, and what the dashboard is made of",
  () => {
    const bill = billOfMaterials(REPOSITORY, 1_800_000_000);
    expect(billOfMaterials(REPOSITORY, 1_800_000_000)).toBe(bill);
    const { components, dependencies, metadata, serialNumber } = JSON.parse(bill) as Bill;
    const text = readFileSync(path.join(REPOSITORY, "package-lock.json"), "utf8");
    const { packages } = JSON.parse(text) as { packages: Record<string, { dev?: true; version: string }> };
    const installed = Object.entries(packages)
      .filter(([place, { dev }]) => place !== "" && !dev)
      .map(([place, { version }]) => `${place.replace(/^.*node_modules\//, "")}@${version}`);
    const named = (each: Bill["components"]): string[] =>
      each.map(({ name, version }) => `${name}@${version}`);
    expect(named(components.filter(({ properties }) => !properties)).toSorted()).toEqual(
      installed.toSorted(),
    );
    const bundled = named(components.filter(({ properties }) => properties)).map((each) =>
      each.replace(/@[^@]+$/, ""),
    );
    expect(bundled).toEqual(
      expect.arrayContaining(["react", "react-dom", "@tanstack/react-router", "tailwindcss"]),
    );
    expect(bundled).not.toContain("vite");
    for (const each of components)
      expect([each.name, each.hashes.length, each.licenses.length]).toEqual([each.name, 1, 1]);
    // Nothing is named that the bill does not have.
    const refs = [metadata.component, ...components].map((each) => each["bom-ref"]);
    expect(refs).toEqual([...new Set(refs)]);
    expect(
      dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]).filter((ref) => !refs.includes(ref)),
    ).toEqual([]);
    expect(metadata.timestamp).toBe("2027-01-15T08:00:00.000Z");
    expect(serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  },
);

verifies("packaging.release", "a package below another is the one that Node finds there", () => {
  const packages = {
    "node_modules/one": {
      version: "1.0.0",
      dependencies: { "@two/three": "2" },
      peerDependencies: { none: "1" },
    },
    "node_modules/@two/three": { version: "1.0.0", dependencies: { four: "1" } },
    "node_modules/one/node_modules/@two/three": { version: "2.0.0", dependencies: { one: "1" } },
    "node_modules/four": { version: "1.0.0" },
  };
  expect([...packagesBelow(packages, ["one"])]).toEqual([
    "node_modules/one",
    "node_modules/one/node_modules/@two/three",
  ]);
});

type Bill = {
  serialNumber: string;
  metadata: { timestamp: string; component: { "bom-ref": string } };
  components: {
    "bom-ref": string;
    name: string;
    version: string;
    hashes: object[];
    licenses: object[];
    properties?: object[];
  }[];
  dependencies: { ref: string; dependsOn: string[] }[];
};
