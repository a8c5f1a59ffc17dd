import { expect, test } from "vitest";

import { readAppConfig } from "../../../src/config/app-config.ts";
import type { ConfigError } from "../../../src/config/problems.ts";
import { shellWords } from "../../../src/config/keys/build.ts";
import type { AppConfig } from "../../../src/model/app-config.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

/** From a file, in the form of the hosted original. */
function fromFile(text: string): { config: AppConfig; warnings: string[] } {
  return readAppConfig({ toml: { text, fileName: "cerebrium.toml" }, host: HOST });
}

function problemsOf(payload: unknown): readonly string[] {
  try {
    readAppConfig({ payload, host: HOST });
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
}

test("a command line is split as a shell would", () => {
  for (const [line, words] of [
    ["uvicorn main:app --port 8000", ["uvicorn", "main:app", "--port", "8000"]],
    ["  a\t b\n", ["a", "b"]],
    ["sh -c 'echo \"$PORT\"'", ["sh", "-c", 'echo "$PORT"']],
    [String.raw`a "b \"c\" \d $X" e\ f`, ["a", String.raw`b "c" \d $X`, "e f"]],
    [`a'b'"c"d`, ["abcd"]],
    ["a '' b", ["a", "", "b"]],
    ["", []],
    ["a 'b", null],
    ['a "b', null],
    ["a \\", null],
  ] as const) {
    expect([line, shellWords(line)]).toEqual([line, words]);
  }
});

verifies("servers.entrypoint", "an entrypoint is a list, a line, or a list of one line", () => {
  const wordsOf = (entrypoint: unknown): readonly string[] | undefined =>
    readAppConfig({ payload: { runtime: "custom", entrypoint }, host: HOST }).config.customRuntime
      ?.entrypoint;
  const words = ["uvicorn", "main:app", "--port", "8000"];
  expect(wordsOf(words)).toEqual(words);
  expect(wordsOf(words.join(" "))).toEqual(words);
  expect(wordsOf([words.join(" ")])).toEqual(words);
  expect(wordsOf(["./serve"])).toEqual(["./serve"]);
  expect(wordsOf(["sh", "-c", "a b"])).toEqual(["sh", "-c", "a b"]);
  expect(wordsOf([])).toEqual([]);
  const { config } = fromFile(`[cerebrium.runtime.custom]\nentrypoint = "python 'my server.py'"\n`);
  expect(config.customRuntime?.entrypoint).toEqual(["python", "my server.py"]);
  for (const entrypoint of ["a 'b", ["a 'b"], 5, [5], "x ".repeat(101), "x".repeat(4097)]) {
    expect(problemsOf({ runtime: "custom", entrypoint })).toEqual([
      expect.stringMatching(/^entrypoint must be a list of up to 100 words, or one command line, got /),
    ]);
  }
});

verifies("hosted.empty-command", "an empty command is none, in a file and in a payload", () => {
  const { config } = fromFile('[cerebrium.deployment]\nshell_commands = ["", " ", "make"]\n');
  expect(config.deployment.shellCommands).toEqual(["make"]);
  const read = readAppConfig({ payload: { shellCommands: [""], preBuildCommands: ["\n"] }, host: HOST });
  expect(read.config.deployment).toMatchObject({ shellCommands: [], preBuildCommands: [] });
});

verifies("hosted.extras", "extras may have spaces between them, names may not", () => {
  const { config } = fromFile('[cerebrium.dependencies.pip]\n"pkg[a, b]" = "latest"\n');
  expect(config.dependencies.pip).toEqual({ "pkg[a, b]": "latest" });
  for (const name of ["a b", "a [b]", "-r x", "[a] b"]) {
    expect(() => fromFile(`[dependencies.pip]\n"${name}" = ""\n`)).toThrow("must be a package name");
  }
});

verifies("hosted.python-number", "a version may be a bare number", () => {
  const versionOf = (value: string): string | null =>
    fromFile(`[cerebrium.deployment]\npython_version = ${value}\n`).config.deployment.pythonVersion;
  expect(["3.12", "3.9", "3.10", '"3.10"', '"3.1"', '"3.12.4"'].map(versionOf)).toEqual([
    "3.12",
    "3.9",
    "3.10",
    "3.10",
    "3.10",
    "3.12.4",
  ]);
  expect(() => versionOf("312")).toThrow('must be a version such as "3.12", got 312');
});

verifies("hosted.gpu-count", "without a number, a GPU is one, and a CPU none", () => {
  const countOf = (hardware: object): number =>
    readAppConfig({ payload: hardware, host: HOST }).config.hardware.gpuCount;
  expect(countOf({})).toBe(0);
  expect(countOf({ compute: "cpu" })).toBe(0);
  expect(countOf({ compute: "AMPERE_A10" })).toBe(1);
  expect(countOf({ compute: ["CPU", "AMPERE_A10"] })).toBe(0);
  expect(countOf({ compute: "AMPERE_A10", gpuCount: 4 })).toBe(4);
});

verifies("hosted.container-runtime", "v1 and v2 are known, and nothing else", () => {
  expect(fromFile('[cerebrium.runtime]\ncontainer_runtime = "v2"\n')).toMatchObject({
    config: { deployment: { containerRuntime: "v2" }, customRuntime: null },
    warnings: [],
  });
  expect(problemsOf({ containerRuntime: "v3" })).toEqual([
    'containerRuntime must be one of "v1", "v2", got "v3"',
  ]);
});

verifies("hosted.unknown-once", "what two places of a deploy say is warned about once", () => {
  const text = "[cerebrium.deployment]\nspeed = 9\n[cerebrium.experimental]\ncheckpointing = true\n";
  const toml = { text, fileName: "cerebrium.toml" };
  const { warnings } = readAppConfig({ payload: { cerebrium_toml: text }, toml, host: HOST });
  expect(warnings).toEqual([
    expect.stringMatching(/^cerebrium\.deployment\.speed is not a known key/),
    expect.stringMatching(/^\[experimental\] is ignored: /),
  ]);
});

verifies(
  "hosted.partners",
  "a partner's runtime is refused by name, unless the payload names another",
  () => {
    expect(() => fromFile("[cerebrium.runtime.rime]\nport = 8001\n")).toThrow(
      "[runtime.rime] asks for a partner",
    );
    expect(problemsOf({ runtime: "deepgram" })).toEqual([
      expect.stringMatching(/^runtime = "deepgram" asks for a partner service of the hosted platform/),
    ]);
    expect(problemsOf({ runtime: "cortex", cerebrium_toml: "[runtime.rime]\n" })).toEqual([]);
    expect(problemsOf({ runtime: "other" })).toEqual([
      'runtime must be one of "cortex", "custom", got "other"',
    ]);
  },
);
