import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const WRITES = `
import os
def run():
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], "made"), "w") as file:
        file.write("here")
`;

describe.each(["none", "auto"])("with isolation %s", (isolation) => {
  verifies("volumes.shared", "an app's storage is where volumes are shared", async () => {
    const volumes = await mkdtemp(path.join(tmpdir(), "millrace-volumes-"));
    onTestFinished(async () => await rm(volumes, { recursive: true, force: true }));
    const test = await testService({ app: { main: WRITES } }, { volumes, isolation });
    expect((await test.call("app")).status).toBe(200);
    expect(await readFile(path.join(volumes, test.service.owner.projectId, "made"), "utf8")).toBe("here");
  });
});
