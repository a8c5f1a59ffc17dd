import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Answer } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { writeWheels } from "../../integration/builds/wheels.ts";
import { OnceClient } from "../../integration/once/site.ts";

const clock = new SkippingClock();
const shared = sharedService({}, {}, { clock });
let folder = "";

/** The packages of a folder are all there are. */
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "millrace-wheels-"));
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
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

/** Asks for packages as clients do: again while they are being installed. */
async function baseImage(client: OnceClient, wish: object, query = ""): Promise<Answer> {
  let answer = await client.post(`base-image${query}`, wish);
  await until("the packages are installed", async () => {
    if (answer.json.status === "building") answer = await client.post(`base-image${query}`, wish);
    return answer.json.status !== "building";
  });
  return answer;
}

verifies(
  "run-once.base-image",
  "packages are installed once, and files that name their digest run with them",
  async () => {
    const service = shared();
    const client = new OnceClient(service, "packaged");
    await client.post("create-run-app");
    const wish = {
      dependencies: { pip: { greeter: "latest" }, conda: null, apt: {} },
      preBuildCommands: [],
      shellCommands: null,
      baseImageURI: "debian:bookworm-slim",
    };
    const made = await baseImage(client, wish, "?region=us-east-1");
    expect(made.json).toEqual({
      status: "ready",
      digest: expect.stringMatching(/^p-[0-9a-z]{8}-[0-9a-f]{32}$/),
    });
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
  const client = new OnceClient(shared(), "unlucky");
  await client.post("create-run-app");
  const apt = await baseImage(client, { dependencies: { apt: { ffmpeg: "latest" } } });
  expect(apt.json).toEqual({ status: "ready", digest: "none" });
  expect(shared().logs.map(({ text }) => text)).toContainEqual(expect.stringMatching(/ffmpeg/));
  const missing = await baseImage(client, { dependencies: { pip: { "no-such-package": "1.0" } } });
  expect([missing.status, missing.json.message]).toEqual([422, expect.stringContaining("no-such-package")]);
  const command = Buffer.from("echo not today && exit 4").toString("base64");
  const failing = await baseImage(client, { preBuildCommands: [command] });
  expect([failing.status, failing.json.message]).toEqual([422, expect.stringContaining("exit code 4")]);
  const nothing = await baseImage(client, {});
  expect(nothing.json).toEqual({ status: "ready", digest: "none" });
  const runId = await client.run("filename=main.py&imageDigest=none", { "main.py": "print('runs')" });
  expect((await client.ended(runId)).status).toBe("success");
});

verifies(
  "shares.builds",
  "a project has so many installs under way, and one that hangs has an end",
  async () => {
    const client = new OnceClient(shared(), "hanging");
    await client.post("create-run-app");
    const hanging = (place: number) =>
      client.post("base-image", { preBuildCommands: [`echo asleep ${place}; sleep 600`] });
    const first = hanging(0);
    await clock.sets(3_600_000);
    const others = Array.from({ length: 9 }, (_, place) => hanging(place + 1));
    const asked = [first, ...others];
    await clock.sets(20_000, 10);
    expect((await hanging(10)).json).toMatchObject({ code: "queue_full" });
    clock.skip(20_000);
    for (const { json } of await Promise.all(asked)) expect(json).toEqual({ status: "building", digest: "" });
    clock.leap(3_600_000);
    const ended = await hanging(0);
    expect([ended.status, ended.json.message]).toEqual([
      422,
      "installing the packages took longer than an hour",
    ]);
  },
);
