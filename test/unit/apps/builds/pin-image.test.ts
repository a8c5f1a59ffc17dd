import { expect } from "vitest";
import { digestOf, pinImage } from "../../../../src/apps/builds/remote/remote-target.ts";
import { verifies } from "../../../verifies.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;

verifies("pod-builds.pinned", "an image by a tag is pinned to what its machine says it ran", () => {
  const pinned = (image: string, repository: string) => pinImage(image, `${repository}@${DIGEST}`);
  expect(pinned("python:3.12", "docker.io/library/python")).toBe(`python@${DIGEST}`);
  expect(pinned("acme/base", "docker.io/acme/base")).toBe(`acme/base@${DIGEST}`);
  expect(pinned("host:5000/base:1", "host:5000/base")).toBe(`host:5000/base@${DIGEST}`);
  expect(pinned("host:5000/base", "host:5000/base")).toBe(`host:5000/base@${DIGEST}`);
  // The same image from another repository, from none, and one that nobody tells.
  expect(pinned("host/base:1", "other/base")).toBeNull();
  expect([pinImage("host/base:1", DIGEST), pinImage("host/base:1", null)]).toEqual([null, null]);
});

verifies("pod-builds.reuse", "an image is known by its digest, whichever repository it came from", () => {
  expect([digestOf(`host/base@${DIGEST}`), digestOf(DIGEST)]).toEqual([DIGEST, DIGEST]);
  expect(digestOf("unknown in pod-1")).toBe("unknown in pod-1");
});
