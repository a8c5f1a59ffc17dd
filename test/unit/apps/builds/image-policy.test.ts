import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { registriesOnly } from "../../../../src/apps/builds/images/make-image.ts";
import { verifies } from "../../../verifies.ts";

verifies(
  "images.reach",
  "what the host demands of registries stays, and nothing else is a source",
  async () => {
    const home = await mkdtemp(path.join(tmpdir(), "millrace-policy-"));
    onTestFinished(async () => await rm(home, { recursive: true }));
    await mkdir(path.join(home, ".config/containers"), { recursive: true });
    const signed = [{ type: "signedBy", keyPath: "/key" }];
    const any = [{ type: "insecureAcceptAnything" }];
    const policy = { default: signed, transports: { docker: { "quay.io": any }, dir: { "": any } } };
    await writeFile(path.join(home, ".config/containers/policy.json"), JSON.stringify(policy));
    expect(await registriesOnly({ HOME: home })).toEqual({
      default: [{ type: "reject" }],
      transports: { docker: { "": signed, "quay.io": any } },
    });
  },
);
