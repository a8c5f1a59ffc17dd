import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { storageFolder } from "../../../src/host/data-folders.ts";
import { testService } from "../../support/service.ts";
import { onlyUpTo, requireOffered } from "../../support/walls/walled.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient } from "../once/site.ts";

const FILE = `
import os, sys
with open("beside", "w") as beside, open(os.environ["PERSISTENT_STORAGE"] + "/kept", "w") as kept:
    kept.write("kept")
with open("/proc/self/status") as lines:
    print(next(line.split()[1] for line in lines if line.startswith("Seccomp:")))
data_dir = sys.argv[-1].strip('"')
for name in ("owner-token", "master.key"):
    try:
        open(data_dir + "/" + name)
        print("escaped")
    except OSError as error:
        print("stopped")
`;

for (const level of TRIED_LEVELS) {
  verifies("walls.files", `on ${level} a file runs behind the walls of an app`, async (context) => {
    await requireOffered(level, context);
    const service = await testService({}, await onlyUpTo(level));
    const { dataDir } = service.settings;
    const client = new OnceClient(service, "files");
    const runId = await client.run("filename=main.py", { "main.py": FILE }, JSON.stringify(dataDir));
    expect((await client.ended(runId)).status).toBe("success");
    const reached = level === "process" ? "escaped" : "stopped";
    const lines = ["2", reached, reached];
    expect(await client.lines(runId)).toEqual(lines.map((line) => `stdout: ${line}`));
    const storage = storageFolder(service.service.owner.projectId, dataDir);
    expect(readFileSync(path.join(storage, "kept"), "utf8")).toBe("kept");
    expect(readdirSync(path.join(dataDir, "scratch"))).toEqual([]);
  });
}
