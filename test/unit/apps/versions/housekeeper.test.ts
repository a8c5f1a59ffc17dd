import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  isSharedFolder,
  KEPT_VERSIONS,
  outdated,
  removeUnnamedBundles,
} from "../../../../src/apps/versions/housekeeper.ts";
import type { Version } from "../../../../src/model/app.ts";
import { verifies } from "../../../verifies.ts";

const versions = (count: number): Version[] =>
  Array.from({ length: count }, (_, i) => ({ id: String(count - i) }) as Version);

test("only what is older than the kept ones and needed by nobody is outdated", () => {
  expect(outdated(versions(KEPT_VERSIONS), () => false)).toEqual([]);
  const ids = outdated(versions(KEPT_VERSIONS + 4), (id) => id === "3").map(({ id }) => id);
  expect(ids).toEqual(["4", "2", "1"]);
});

verifies(
  "shared.folders",
  "bundles that nobody names go, and with the last one its app's folder",
  async () => {
    const root = mkdtempSync(path.join(tmpdir(), "millrace-bundles-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    for (const bundle of ["p-a/app/one", "p-a/app/two", "p-a/gone/one", "p-b/app/one"]) {
      mkdirSync(path.join(root, bundle), { recursive: true });
      writeFileSync(path.join(root, bundle, "main.py"), "");
    }
    const named = new Set([path.join(root, "p-a/app/two"), path.join(root, "p-b/app/one")]);
    // All of them came after that: another service may be about to name them.
    await removeUnnamedBundles(root, named, statSync(root).ctimeMs - 60_000);
    expect(
      readdirSync(root, { recursive: true }).filter((name) => String(name).endsWith("main.py")),
    ).toHaveLength(4);
    await removeUnnamedBundles(root, named);
    expect(readdirSync(path.join(root, "p-a"))).toEqual(["app"]);
    expect(readdirSync(path.join(root, "p-a/app"))).toEqual(["two"]);
    expect(readdirSync(path.join(root, "p-b/app"))).toEqual(["one"]);
    await removeUnnamedBundles(path.join(root, "nowhere"), named);
  },
);

verifies("shared.folders", "a folder that is a link may be other services' too", () => {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-shared-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const name of ["data/bundles", "elsewhere"]) mkdirSync(path.join(root, name), { recursive: true });
  const dataDir = path.join(root, "data");
  symlinkSync(path.join(root, "elsewhere"), path.join(dataDir, "environments"));
  const names = ["bundles", "environments", "none"];
  expect(names.map((name) => isSharedFolder(dataDir, name))).toEqual([false, true, false]);
});
