import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { MILLRACE, MILLRACE_OF_CLONE, run, scratchDirectory } from "../../support/command-line.ts";
import { startCosts } from "../../support/processor-time.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

/** What bash offers for the last of these words. */
async function offered(client: Client, ...words: string[]): Promise<string[]> {
  const script = `
    source ./completion.bash
    COMP_WORDS=(millrace "$@"); COMP_CWORD=$#
    _millrace
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { code, stdout, stderr } = await run("bash", ["-c", script, "bash", ...words], client);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout.split("\n").filter(Boolean);
}

verifies("cli.completion", "bash completes commands, subcommands and options where they belong", async () => {
  const client = new Client(null);
  writeFileSync(path.join(client.cwd, "completion.bash"), await client.ok("completion", "bash"));
  expect(await offered(client, "se")).toEqual(["secrets", "serve", "service-accounts"]);
  expect(await offered(client, "apps", "")).toEqual(["list", "get", "scale", "rollback", "delete"]);
  expect(await offered(client, "apps", "scale", "hello", "--m")).toEqual(["--min", "--max"]);
  expect(await offered(client, "apps", "--project", "p-1", "list", "--js")).toEqual(["--json"]);
  expect(await offered(client, "call", "hello", "")).toEqual([]);
  expect(await offered(client, "serve", "--data")).toEqual([
    "--data-dir",
    "--database-url",
    "--database-direct-url",
  ]);
});

verifies("cli.completion", "zsh and fish get every command and option too", async () => {
  const client = new Client(null);
  const [zsh, fish] = [await client.ok("completion", "zsh"), await client.ok("completion", "fish")];
  expect(zsh).toMatch(/^#compdef millrace\n/);
  expect(zsh).toContain('"apps scale") commands="" options="--url --project --data-dir --json --min --max');
  expect(fish).toContain(
    "complete -c millrace -n '__fish_seen_subcommand_from apps; and __fish_seen_subcommand_from scale' -l min -r -d 'minimum number of replicas'",
  );
  expect(fish).toContain("complete -c millrace -f -n 'not __fish_seen_subcommand_from init ");
});

/** Node's own start takes 30 ms of a processor where this is 150 ms, which nobody at a keyboard notices. */
const MAX_STARTS = 5;

verifies(
  "cli.start-time",
  "version and help take at most as much of a processor as five bare starts of Node",
  async () => {
    const commands = [["version"], ["--help"], ["help", "call"]];
    const costs = await startCosts(commands.map((args) => [MILLRACE, ...args]));
    const told = commands.map(
      (args, place) => `${args.join(" ")}: ${costs[place]?.toFixed(1)} starts of Node`,
    );
    console.log(told.join(", "));
    expect(costs.filter((cost) => cost > MAX_STARTS)).toEqual([]);
  },
);

verifies(
  "cli.start-time",
  "a command that asks nobody loads its own file and none of the service",
  async () => {
    for (const args of [["version"], ["--help"], ["help", "serve"]]) {
      const service = (await loadedFiles(args)).filter(
        (file) => !/^(?:cli\/|config\/|kit\/|model\/visible-text)/.test(file),
      );
      expect([args, service]).toEqual([args, []]);
    }
    expect(await loadedFiles(["version"])).toEqual([
      "cli/cli.ts",
      "cli/failure.ts",
      "cli/options.ts",
      "cli/output.ts",
      "cli/program-name.ts",
      "cli/program.ts",
      "config/package-files.ts",
      "model/visible-text.ts",
    ]);
  },
);

/** The files of `src/` that a command runs code of. */
async function loadedFiles(args: readonly string[]): Promise<string[]> {
  const folder = scratchDirectory();
  const { code } = await run(MILLRACE_OF_CLONE, args, { env: { NODE_V8_COVERAGE: folder } });
  expect(code).toBe(0);
  const [report = ""] = readdirSync(folder);
  const { result } = JSON.parse(readFileSync(path.join(folder, report), "utf8")) as {
    result: { url: string }[];
  };
  const source = pathToFileURL(path.join(REPOSITORY, "src/")).href;
  const loaded = result.map(({ url }) => url).filter((url) => url.startsWith(source));
  return loaded.map((url) => url.slice(source.length)).toSorted();
}

test("version is the package's, alone and as a document", async () => {
  const client = new Client(null);
  const version = await client.ok("version");
  expect(version).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(await client.json("version")).toEqual({ version: version.trim(), node: expect.any(String) });
  expect(await client.ok("--version")).toBe(version);
});
