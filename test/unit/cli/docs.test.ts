import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { EXIT } from "../../../src/cli/failure.ts";
import { ALL, buildProgram } from "../../../src/cli/program.ts";
import { SETTING_KEYS, flagOf } from "../../../src/config/setting-keys.ts";
import { verifies } from "../../verifies.ts";

const DOCUMENT = readFileSync(new URL("../../../docs/cli.md", import.meta.url), "utf8");
const program = await buildProgram(ALL);
const leaves = leavesOf(program, []);
const settings = new Set(["--config", ...Object.values(SETTING_KEYS).map(({ name }) => flagOf(name))]);
const COMMON = ["--url", "--project", "--data-dir", "--json"];

verifies("cli.docs", "docs/cli.md lists every command with its arguments and options, and no other", () => {
  const expected = leaves.map(rowOf);
  const documented = DOCUMENT.split("\n").filter((line) => line.startsWith("| `millrace "));
  expect(expected.length).toBeGreaterThan(40);
  expect(documented.filter((row) => !expected.includes(row))).toEqual([]);
  expect(expected.filter((row) => !documented.includes(row))).toEqual([]);
});

verifies("cli.docs", "docs/cli.md lists every exit code, and no other", () => {
  const codes = [...DOCUMENT.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  expect(codes).toEqual([0, ...Object.values(EXIT)]);
});

test("docs/cli.md describes the options that commands share", () => {
  const common = leaves.find(({ path }) => path === "apps list")?.command.options ?? [];
  expect(common.map(({ long }) => long)).toEqual(COMMON);
  for (const { flags, description } of common)
    expect(DOCUMENT).toContain(`| \`${flags}\` | ${description} |`);
});

describe("help", () => {
  test("every command has a summary, and an example that begins with its own words", () => {
    for (const { path, command } of leaves) {
      expect([path, command.description()]).toEqual([path, expect.stringMatching(/^[a-z].*[^.]$/)]);
      const help = helpOf(command);
      const [, examples = ""] = /\nExamples?:\n((?: {2}.*\n)+)$/.exec(help) ?? [];
      // A default command is typed by its group's name alone.
      const typed = path === "projects list" ? "projects" : path;
      expect([path, examples]).toEqual([path, expect.stringContaining(`millrace ${typed}`)]);
    }
  });

  test("every option of an example is one of its command", () => {
    for (const { path, command } of leaves) {
      const [, examples = ""] = /\nExamples?:\n((?: {2}.*\n)+)$/.exec(helpOf(command)) ?? [];
      const known = command.options.flatMap(({ long, short }) => [long, short]);
      for (const [flag] of examples.matchAll(/(?<= )--?[a-z][a-z-]*/g)) {
        expect([path, known]).toEqual([path, expect.arrayContaining([flag])]);
      }
    }
  });
});

type Leaf = { readonly path: string; readonly command: Command };

function leavesOf(command: Command, words: readonly string[]): Leaf[] {
  if (command.commands.length === 0) return [{ path: words.join(" "), command }];
  return command.commands.flatMap((below) => leavesOf(below, [...words, below.name()]));
}

/** A command as the document shows it. */
function rowOf({ path, command }: Leaf): string {
  const words = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  const isRemote = COMMON.every((flag) => command.options.some(({ long }) => long === flag));
  const own = command.options.filter(
    ({ long, hidden }) => !hidden && !(isRemote && COMMON.includes(long ?? "")),
  );
  const isServer = own.some(({ long }) => long === "--data-dir") && path !== "dev";
  const options = own
    .filter(({ long }) => !(isServer && settings.has(long ?? "")))
    .map(({ flags, description }) => `\`${flags}\` ${description}`);
  if (isServer) options.push("every setting of [config.md](config.md)");
  return `| \`millrace ${[path, ...words].join(" ")}\` | ${command.description()} | ${options.join("<br>")} |`;
}

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({ writeOut: (part) => (text += part) });
  command.outputHelp();
  return text;
}
