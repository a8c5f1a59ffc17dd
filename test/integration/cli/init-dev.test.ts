import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

verifies("cli.init", "init makes an app that deploys and answers as it is", async () => {
  const client = new Client(await testService());
  const made = await client.ok("init", "My First App");
  expect(made).toContain("my-first-app is in My First App: main.py, millrace.toml, README.md");
  await client.ok("deploy", "My First App");
  expect(JSON.parse(await client.ok("call", "my-first-app", "name=Ada"))).toEqual({ message: "Hello, Ada!" });
  expect(await client.ok("call", "my-first-app", "count", "upto=2")).toBe("Number 1\nNumber 2\n");
});

verifies("cli.init", "init never overwrites: with one file in the way nothing is written", async () => {
  const client = new Client(null);
  const folder = path.join(client.cwd, "app");
  mkdirSync(folder);
  writeFileSync(path.join(folder, "main.py"), "mine");
  const { code, stderr } = await client.run("init", "app");
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/already has main\.py; nothing was written\n {2}→ /),
  ]);
  expect(readdirSync(folder)).toEqual(["main.py"]);
  expect(readFileSync(path.join(folder, "main.py"), "utf8")).toBe("mine");
  const named = await client.run("init", "other", "--name", "Not A Name");
  expect([named.code, existsSync(path.join(client.cwd, "other"))]).toEqual([2, false]);
  expect(await client.json("init", "other", "--name", "fine")).toMatchObject({ name: "fine" });
  // As formatters of Python leave it: two empty lines before each function.
  const main = readFileSync(path.join(client.cwd, "other", "main.py"), "utf8");
  expect(main.match(/(?<=\n\n\n)def \w+/g)).toEqual(["def run", "def count"]);
});
