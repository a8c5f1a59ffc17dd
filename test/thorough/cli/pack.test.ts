import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import {
  Command,
  plainEnvironment,
  repositoryCopy,
  scratchDirectory,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const run = promisify(execFile);

verifies(
  "packaging.client",
  "what npm ci runs in a clone builds the client library, for the clone and for projects that link it",
  async () => {
    const clone = repositoryCopy();
    expect(existsSync(path.join(clone, "dist"))).toBe(false);
    // npm ci runs it at its end; the packages are there already.
    await run("npm", ["run", "prepare"], { cwd: clone });
    const outside = scratchDirectory();
    await mkdir(path.join(outside, "node_modules"));
    await symlink(clone, path.join(outside, "node_modules", "millrace"));
    const script = 'import { Millrace } from "millrace/client"; console.log(typeof Millrace);';
    for (const cwd of [clone, outside]) {
      await writeFile(path.join(cwd, "try.mjs"), script);
      expect((await run(process.execPath, ["try.mjs"], { cwd })).stdout).toBe("function\n");
    }
    expect(existsSync(path.join(clone, "dist/client/client.d.ts"))).toBe(true);
  },
);

verifies("packaging.quiet", "npm ci on an older Node has nothing to complain about", async () => {
  const cwd = scratchDirectory();
  for (const file of ["package.json", "package-lock.json", ".npmrc"])
    await copyFile(path.join(REPOSITORY, file), path.join(cwd, file));
  // npm asks this for the version; what it would install is in the lock file.
  const older = path.join(cwd, "older.cjs");
  await writeFile(older, 'Object.defineProperty(process, "version", { value: "v20.19.0" });\n');
  // Nor is it asked whether there is a newer npm.
  const quiet = { NPM_CONFIG_UPDATE_NOTIFIER: "false" };
  const env = { ...plainEnvironment(), ...quiet, HOME: cwd, NODE_OPTIONS: `--require ${older}` };
  const { stdout, stderr } = await run("npm", ["ci", "--dry-run", "--offline"], { cwd, env });
  expect(stdout).toContain("added ");
  expect(stderr).toBe("");
});

verifies(
  "packaging.pack",
  "what npm packs holds no sources, and serves apps, the dashboard and the client library",
  async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "millrace-pack-"));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    await run("npm", ["pack", "--pack-destination", dir, "--silent"], { cwd: REPOSITORY });
    const { version } = JSON.parse(await readFile(path.join(REPOSITORY, "package.json"), "utf8")) as {
      version: string;
    };
    await run("tar", ["-xzf", `millrace-${version}.tgz`], { cwd: dir });
    const root = path.join(dir, "package");
    await symlink(path.join(REPOSITORY, "node_modules"), path.join(root, "node_modules"));
    const bin = path.join(root, "bin", "millrace");
    expect((await run(bin, ["version"])).stdout.trim()).toBe(version);
    const { stdout: listed } = await run("find", [
      root,
      "-path",
      "*/node_modules",
      "-prune",
      "-o",
      "-name",
      "*.ts",
      "-print",
    ]);
    expect(listed.split("\n").filter((file) => file !== "" && !file.endsWith(".d.ts"))).toEqual([]);

    const command = new Command(bin, ["start"], { env: serviceEnvironment(path.join(dir, "data")) });
    onTestFinished(async () => {
      process.kill(command.pid, "SIGTERM");
      await command.exited;
    });
    const [, baseUrl = ""] = await command.printed(/management +(\S+)/);
    const [, url = "", token = ""] = await command.printed(/'(\S+\/hello\/run)'[^]*?Bearer (\S+)'/);
    const page = await (await fetch(baseUrl)).text();
    const [, asset = ""] = /src="(\/assets\/[^"]+)"/.exec(page) ?? [];
    expect((await fetch(`${baseUrl}${asset}`)).status).toBe(200);
    const { pathname, origin } = new URL(url);
    const [, , project = ""] = pathname.split("/");
    const client = path.join(root, "dist", "client", "client.js");
    const script = `import { Millrace } from ${JSON.stringify(client)};
      const millrace = new Millrace(${JSON.stringify({ url: origin, project, token })});
      console.log((await millrace.run("hello", { name: "Ada" })).result.message);`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script]);
    expect(stdout).toBe("Hello, Ada!\n");

    // A newcomer's way, in an empty folder, with what was packed alone.
    const env = { ...process.env, MILLRACE_URL: baseUrl, MILLRACE_API_URL: origin, MILLRACE_TOKEN: token };
    const millrace = async (...args: string[]): Promise<string> =>
      (await run(bin, args, { cwd: dir, env: { ...env, XDG_CONFIG_HOME: dir } })).stdout;
    await millrace("init", "hi");
    expect(await millrace("deploy", "hi", "--yes")).toContain(`/${project}/hi/run`);
    expect(await millrace("call", "hi", "name=Ada")).toContain("Ada");
    expect(await millrace("call", "hi", "name=Ada", "--async", "--wait")).toContain("Ada");
    expect((await millrace("call", "hi", "count", "upto=3", "--stream")).trim().split("\n")).toHaveLength(3);
    expect(await millrace("runs", "list", "hi", "--json")).toMatch(/"async": ?true/);
  },
);
