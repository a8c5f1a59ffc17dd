import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { ALLOWED } from "../../../../src/host/app-environment.ts";
import type { Authority } from "../../../../src/nodes/authority.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { testAuthority } from "../../../support/nodes/hop.ts";
import { X509Certificate } from "node:crypto";

/** A file of the agent. */
function source(name: string): string {
  return readFileSync(path.join(REPOSITORY, "python", "millrace_agent", name), "utf8");
}

test("an app sees as much of its surroundings in a seat elsewhere as on the service's machine", () => {
  const [, listed = ""] = /^ALLOWED = \(\n(.*?)^\)/ms.exec(source("child.py")) ?? [];
  // The cluster assigns GPUs there; here the service does.
  const names = listed.match(/[A-Z_]+/g)?.filter((name) => name !== "CUDA_VISIBLE_DEVICES");
  expect(names).toEqual([...ALLOWED]);
});

test("an agent looks for the name that every service shows, which is no node's", async () => {
  const [, name = ""] = /^SERVER_NAME = "(.*)"$/m.exec(source("channel.py")) ?? [];
  const authority: Authority = await testAuthority();
  const certificate = new X509Certificate(authority.forSeats().certificate);
  expect(certificate.subjectAltName).toBe(`DNS:${name}`);
  expect(name).not.toMatch(/^[0-9a-z-]+\.millrace\.internal$/);
});
