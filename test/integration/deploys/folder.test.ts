import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { testService, writeApp } from "../../support/service.ts";
import { DeploySite, answering } from "./site.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "deploy.new-version",
  "a folder that is deployed already changes nothing; one that differs is a new version",
  async () => {
    const site = new DeploySite(await testService());
    const { service, directory } = site.test;
    const folder = path.join(directory, "sources", "hello");
    const write = async (main: string, toml = ""): Promise<void> => {
      await writeApp(folder, "hello", { main, toml });
      await mkdir(path.join(folder, ".git"));
      await writeFile(path.join(folder, ".git", "config"), String(Math.random()));
    };
    await write(answering("one"));
    const first = await service.install(folder);
    expect(await site.answer("hello")).toBe("one");
    await write(answering("one"));
    expect((await service.install(folder)).version.id).toBe(first.version.id);
    // Settings that were changed since stay.
    await site.ask("PATCH", `apps/${site.appId("hello")}`, { cooldownPeriodSeconds: 7 });
    const again = await service.install(folder);
    expect([again.version.id, again.version.config.scaling.cooldownSeconds]).toEqual([first.version.id, 7]);

    await write(answering("two"));
    const second = await service.install(folder);
    expect(second.version.number).toBe(2);
    expect(await site.answer("hello")).toBe("two");
    await write(answering("two"), "[scaling]\nmax_queue = 5");
    expect((await service.install(folder)).version.config.scaling.maxQueue).toBe(5);
    const { json: builds } = await site.ask("GET", `apps/${site.appId("hello")}/builds`);
    expect((builds as { status: string }[]).map(({ status }) => status)).toEqual([
      "success",
      "success",
      "success",
    ]);
    expect(await site.leftovers()).toEqual([]);
  },
);

test("a folder is not tried, but what its configuration asks for is built", async () => {
  const site = new DeploySite(await testService());
  const { service, directory } = site.test;
  const folder = path.join(directory, "sources", "built");
  const toml = '[deployment]\nshell_commands = ["echo \\"answer = 42\\" > made.py"]\n';
  await writeApp(folder, "built", { main: "import made\n\ndef run():\n    return made.answer\n", toml });
  await service.install(folder);
  expect(site.test.ready("built")).toBe(0);
  expect(await site.answer("built")).toBe(42);
  await writeApp(folder, "built", { main: "def run(:", toml: '[deployment]\nshell_commands = ["exit 3"]\n' });
  await expect(service.install(folder)).rejects.toThrow("3");
  expect(await site.answer("built")).toBe(42);
});
