import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { writeWheels } from "../builds/wheels.ts";
import { OnceClient } from "./site.ts";

/** The packages of this folder are all there are. */
async function offerWheels(): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-wheels-"));
  await writeWheels(folder, [{ name: "greeter", version: "1.2.0", module: "WORD = 'hello'" }]);
  for (const [name, value] of Object.entries({
    PIP_CONFIG_FILE: "/dev/null",
    PIP_NO_INDEX: "1",
    PIP_FIND_LINKS: folder,
    UV_NO_INDEX: "1",
    UV_FIND_LINKS: folder,
  })) {
    vi.stubEnv(name, value);
  }
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true, force: true });
  });
}

verifies(
  "run-once.base-image",
  "packages are installed once, and files that name their digest run with them",
  async () => {
    await offerWheels();
    const service = await testService();
    const client = new OnceClient(service, "packaged");
    await client.post("create-run-app");
    const wish = {
      dependencies: { pip: { greeter: "latest" }, conda: null, apt: {} },
      preBuildCommands: [],
      shellCommands: null,
      baseImageURI: "debian:bookworm-slim",
    };
    const made = await client.post("base-image?region=us-east-1", wish);
    expect(made.json).toEqual({ status: "ready", digest: expect.stringMatching(/^[0-9a-f]{16,}$/) });
    expect((await client.post("base-image", wish)).json).toEqual(made.json);
    const environments = path.join(service.settings.dataDir, "environments");
    expect(await readdir(environments)).toEqual([made.json.digest]);
    expect(await readdir(path.join(service.settings.dataDir, "work"))).toEqual([]);

    const files = { "main.py": "import greeter, sys\nprint(greeter.WORD, sys.prefix)" };
    const runId = await client.run(`filename=main.py&imageDigest=${made.json.digest}`, files);
    expect((await client.ended(runId)).status).toBe("success");
    expect(await client.lines(runId)).toEqual([`stdout: hello ${path.join(environments, made.json.digest)}`]);
    const without = await client.run("filename=main.py", files);
    expect((await client.ended(without)).error?.message).toContain("No module named 'greeter'");
  },
);

test("what cannot be installed is told with its reason", async () => {
  await offerWheels();
  const client = new OnceClient(await testService(), "unlucky");
  await client.post("create-run-app");
  const apt = await client.post("base-image", { dependencies: { apt: { ffmpeg: "latest" } } });
  expect([apt.status, apt.json.code, apt.json.message]).toEqual([
    422,
    "deploy_invalid",
    expect.stringContaining("ffmpeg"),
  ]);
  const missing = await client.post("base-image", { dependencies: { pip: { "no-such-package": "1.0" } } });
  expect([missing.status, missing.json.message]).toEqual([422, expect.stringContaining("no-such-package")]);
  const command = Buffer.from("echo not today && exit 4").toString("base64");
  const failing = await client.post("base-image", { preBuildCommands: [command] });
  expect([failing.status, failing.json.message]).toEqual([422, expect.stringContaining("exit code 4")]);
  const nothing = await client.post("base-image", {});
  expect(nothing.json).toEqual({ status: "ready", digest: "none" });
  const runId = await client.run("filename=main.py&imageDigest=none", { "main.py": "print('runs')" });
  expect((await client.ended(runId)).status).toBe("success");
});
