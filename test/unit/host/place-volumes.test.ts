import { existsSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { StorageFolders } from "../../../src/host/storage/folders.ts";
import {
  placeVolumes,
  requireSharedVolumes,
  sharedVolumes,
} from "../../../src/host/storage/place-volumes.ts";
import { verifies } from "../../verifies.ts";

const S3 = { kind: "s3", bucket: "b", prefix: "", endpoint: null, region: null, isPathStyle: false } as const;

function scratch() {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-volumes-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const at = (name: string): string => path.join(root, name);
  return {
    root,
    storage: at("data/storage"),
    dataDir: at("data"),
    blobs: at("blobs"),
    volumes: at("mounted"),
  };
}

verifies(
  "volumes.shared",
  "what the settings name goes before the blobs, and else nothing changes",
  async () => {
    const { dataDir, storage } = scratch();
    const blobs = { kind: "directory", path: "/srv/blobs" } as const;
    expect(sharedVolumes({ volumes: null, blobs })).toBe("/srv/blobs/volumes");
    expect(sharedVolumes({ volumes: "/mnt", blobs })).toBe("/mnt");
    expect(sharedVolumes({ volumes: null, blobs: S3 })).toBeNull();
    await placeVolumes({ dataDir, blobs: null, volumes: null });
    expect(existsSync(storage)).toBe(false);
  },
);

verifies("volumes.shared", "two nodes have the same folder for a project", async () => {
  const { root, blobs, storage, dataDir } = scratch();
  const places = { blobs: { kind: "directory", path: blobs } as const, volumes: null };
  const other = path.join(root, "other");
  mkdirSync(path.join(dataDir, "storage", ".staging"), { recursive: true });
  for (const each of [dataDir, other, dataDir]) await placeVolumes({ ...places, dataDir: each });
  expect(readlinkSync(storage)).toBe(path.join(blobs, "volumes"));
  mkdirSync(path.join(new StorageFolders(dataDir).make("p-one"), "seen"));
  expect(existsSync(path.join(new StorageFolders(other).make("p-one"), "seen"))).toBe(true);
});

verifies("volumes.shared.refused", "volumes that are elsewhere are not left behind", async () => {
  const { dataDir, storage, volumes } = scratch();
  const places = { dataDir, blobs: null, volumes };
  mkdirSync(path.join(storage, "p-one"), { recursive: true });
  await expect(placeVolumes(places)).rejects.toThrow(
    `volumes belong in ${volumes}, but ${storage} holds those of 1 project: move what is in ${storage} there`,
  );
  rmSync(storage, { recursive: true });
  symlinkSync("/srv/other", storage);
  await expect(placeVolumes(places)).rejects.toThrow(`${storage} leads to /srv/other, but volumes belong in`);
});

verifies("volumes.shared.refused", "a node among others needs shared volumes", () => {
  const { dataDir, volumes } = scratch();
  requireSharedVolumes({ dataDir, blobs: S3, volumes: null }, []);
  requireSharedVolumes({ dataDir, blobs: S3, volumes }, ["n-2"]);
  expect(() => requireSharedVolumes({ dataDir, blobs: S3, volumes: null }, ["n-2"])).toThrow(
    "set MILLRACE_VOLUMES to its path on every machine",
  );
});
