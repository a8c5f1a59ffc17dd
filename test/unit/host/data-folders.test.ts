import { expect, test } from "vitest";
import { artifactFolder, artifactFolders, artifactId } from "../../../src/host/data-folders.ts";

test("an id is the same wherever the data directory lies, and leads back to the folder", () => {
  for (const dataDir of ["/a/data", "/b"]) {
    const folder = `${dataDir}/bundles/p-one/app/version`;
    expect(artifactId(folder, dataDir)).toBe("bundles/p-one/app/version");
    expect(artifactFolder("bundles/p-one/app/version", dataDir)).toBe(folder);
  }
});

test("a version without packages has no folder for them", () => {
  expect(artifactFolders({ bundle: "bundles/one", environment: null }, "/data")).toEqual({
    bundle: "/data/bundles/one",
    environment: null,
  });
  const both = { bundle: "bundles/one", environment: "environments/0123" };
  expect(artifactFolders(both, "/data").environment).toBe("/data/environments/0123");
});

test("a folder outside the data directory has no id", () => {
  for (const folder of ["/elsewhere/app", "/data/..", "/data"]) {
    expect(() => artifactId(folder, "/data")).toThrow(`${folder} is not in the data directory`);
  }
});
