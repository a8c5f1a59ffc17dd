import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { storageFolder } from "../../../src/host/data-folders.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { requireCgroups } from "../../support/walls/limited.ts";
import { requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient } from "../once/site.ts";

/** Takes 600 MB at most, which no machine misses, and then waits for its end. */
const EAT = "import time\nheld = [b'x' * (4 << 20) for _ in range(150)]\ntime.sleep(600)\n";
const MAIN = "def run():\n    return True\n";

verifies(
  "walls.limits.once",
  "a file that uses more memory than its app names is ended, and says so",
  async () => {
    const toml = "[hardware]\nmemory = 0.2\n";
    const service = await testService({ files: { main: MAIN, toml } });
    const client = new OnceClient(service, "files");
    const { status, error } = await client.ended(await client.run("filename=eat.py", { "eat.py": EAT }));
    expect([status, error?.message]).toEqual(["failed", expect.stringContaining("memory = 0.2 GB")]);
    expect((await service.call("files", {})).json.result).toBe(true);
  },
);

verifies("walls.limits.disk", "files that fill the storage and end at once are soon refused", async () => {
  const service = await testService({ files: { main: MAIN } }, { maxProjectStorage: "30MB" });
  const client = new OnceClient(service, "files");
  const fill = `import os, uuid
with open(os.environ["PERSISTENT_STORAGE"] + "/" + str(uuid.uuid4()), "wb") as file:
    file.write(bytes(20_000_000))
`;
  const isRefused = async (): Promise<boolean> => {
    const { error } = await client.ended(await client.run("filename=fill.py", { "fill.py": fill }));
    return error?.message.includes("remove some of its files") ?? false;
  };
  await until("it is refused", isRefused);
  const storage = storageFolder(service.service.owner.projectId, service.settings.dataDir);
  const count = readdirSync(storage).length;
  expect(await isRefused()).toBe(true);
  expect(readdirSync(storage)).toHaveLength(count);
});

verifies(
  "walls.limits.disk",
  "what a file writes beside itself is held to max_scratch, too",
  async (context) => {
    await requireOffered("process", context);
    const flags = { isolation: "process", maxScratch: "30MB" };
    const service = await testService({ files: { main: MAIN } }, flags);
    const client = new OnceClient(service, "files");
    const fill = `import time\nopen("filler", "wb").write(bytes(60_000_000))\ntime.sleep(600)\n`;
    const { status, error } = await client.ended(await client.run("filename=fill.py", { "fill.py": fill }));
    expect([status, error?.message]).toEqual(["failed", expect.stringContaining("MILLRACE_MAX_SCRATCH")]);
  },
);

verifies("walls.limits.once", "what a build starts is in a group of its own", async (context) => {
  await requireCgroups("memory", context);
  const toml = '[deployment]\npre_build_commands = ["cat /proc/self/cgroup > groups"]\n';
  const service = await testService({ app: { main: MAIN, toml } });
  const { dataDir } = service.settings;
  const roots = JSON.parse(readFileSync(path.join(dataDir, "limit-groups.json"), "utf8")) as string[];
  const groups = readFileSync(path.join(service.bundleDir("app"), "groups"), "utf8");
  for (const root of roots) expect(groups).toContain(`/${path.basename(root)}/`);
});
