import { expect } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { APP_KEYS } from "../../../src/config/app-shape.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

const EVERY_KEY = `
[batching.embed]
max_size = 1000
max_wait = "1s"
key = "model"
size = "text"
target_latency = 0.25
on_error = "fail"
[batching.generate]
stepper = "Decoder"
[batching.plain]
`;

const USUAL = {
  maxSize: 64,
  maxWaitSeconds: 0.01,
  key: null,
  size: null,
  targetLatencySeconds: null,
  onError: "split",
  stepper: null,
};

verifies("config.batching.keys", "every key of [batching.FUNCTION] is read, in both forms alike", () => {
  const { config, warnings } = readToml(EVERY_KEY);
  expect(warnings).toEqual([]);
  expect(config.batching).toEqual({
    embed: {
      maxSize: 1000,
      maxWaitSeconds: 1,
      key: "model",
      size: "text",
      targetLatencySeconds: 0.25,
      onError: "fail",
      stepper: null,
    },
    generate: { ...USUAL, stepper: "Decoder" },
    plain: USUAL,
  });
  expect(readToml(EVERY_KEY.replaceAll(/^\[/gm, "[cerebrium.")).config).toEqual(config);
  const payload = { cerebrium_toml: EVERY_KEY };
  const toml = { text: "[batching.other]", fileName: "cerebrium.toml" };
  expect(readAppConfig({ payload, toml, host: HOST }).config.batching).toEqual(config.batching);

  const named = new Set([...EVERY_KEY.matchAll(/^([a-z_]+) = /gm)].map((match) => match[1]));
  for (const { path } of APP_KEYS.filter((key) => key.path.startsWith("batching.")))
    expect(named).toContain(path.slice(path.lastIndexOf(".") + 1));
});

verifies("config.batching.keys", "an app without batches has no table of them", () => {
  for (const text of ["", "[batching]"]) expect(readToml(text).config).not.toHaveProperty("batching");
});

verifies("config.batching.keys", "each value has its bounds, and unknown members a suggestion", () => {
  const problems = problemsOf(`
    [batching]
    loose = 5
    [batching._hidden]
    [batching."a b"]
    max_size = 0
    [batching.embed]
    max_size = 1001
    max_wait = "11s"
    key = "two words"
    size = 5
    target_latency = 0
    on_error = "ignore"
    stepper = ["Decoder"]`);
  expect(problems).toEqual([
    "batching.loose must be a table, got 5",
    expect.stringMatching(/^each name in batching must be the name of a function: .*, got "_hidden"$/),
    expect.stringMatching(/^each name in batching must be the name of a function: .*, got "a b"$/),
    'batching."a b".max_size must be a whole number from 1 to 1000, got 0',
    "batching.embed.max_size must be a whole number from 1 to 1000, got 1001",
    'batching.embed.max_wait must be a duration from 0s to 10s, got "11s"',
    'batching.embed.key must be the name of a parameter, of at most 128 characters, got "two words"',
    "batching.embed.size must be the name of a parameter, of at most 128 characters, got 5",
    "batching.embed.target_latency must be a duration from 1ms to 1h, got 0",
    'batching.embed.on_error must be one of "split", "fail", got "ignore"',
    'batching.embed.stepper must be the name of a class, of at most 128 characters, got ["Decoder"]',
  ]);
  const text = "[batching.embed]\nmax_sise = 1\n[scaling]\ntarget_latency = 1";
  expect(readToml(text).warnings).toEqual([
    "batching.embed.max_sise is not a known key; did you mean batching.embed.max_size?",
    "scaling.target_latency is not a known key; did you mean batching.FUNCTION.target_latency?",
  ]);
});

verifies("config.batching.keys", "at most 100 functions are batched", () => {
  const tables = Array.from({ length: 101 }, (_, i) => `[batching.f${i}]`);
  expect(Object.keys(readToml(tables.slice(1).join("\n")).config.batching ?? {})).toHaveLength(100);
  expect(problemsOf(tables.join("\n"))).toEqual([
    "batching has 101 tables, but at most 100 functions can be batched",
  ]);
});

verifies("config.batching.keys", "a stepper stands alone", () => {
  for (const member of [
    "max_wait = 1",
    'key = "a"',
    'size = "a"',
    "target_latency = 1",
    'on_error = "fail"',
  ]) {
    const name = `batching.generate.${member.split(" ")[0]}`;
    expect(problemsOf(`[batching.generate]\nstepper = "Decoder"\n${member}`)).toEqual([
      `${name} cannot be set beside batching.generate.stepper, which takes each call as soon as it has room: remove what it excludes`,
    ]);
  }
});

verifies("config.batching.keys", "an empty text leaves a key unset", () => {
  const text = '[batching.embed]\nkey = ""\nmax_wait = 1\nstepper = ""';
  expect(readToml(text).config.batching).toEqual({ embed: { ...USUAL, maxWaitSeconds: 1 } });
});

verifies("config.batching.keys", "a server app has no functions that could be batched", () => {
  const text = "[cerebrium.runtime.custom]\nport = 5000\n[cerebrium.batching.embed]";
  expect(problemsOf(text)).toEqual([
    "cerebrium.batching is for functions of main.py, and a server app has none: remove it",
  ]);
});

verifies("config.batching.max-queue", "a deploy warns of batches that max_queue keeps from filling", () => {
  const warningsFor = (members: string): readonly string[] =>
    readToml(`[scaling]\nmax_queue = 16\n[batching.embed]\n${members}`).warnings;
  expect(warningsFor("max_size = 17")).toEqual([
    "batching.embed.max_size is 17, but scaling.max_queue lets only 16 callers wait: batches of more than 16 cannot fill",
  ]);
  expect(warningsFor("max_size = 16")).toEqual([]);
  expect(warningsFor('size = "text"')).toEqual([]);
  expect(warningsFor('stepper = "Decoder"')).toEqual([]);
});

function readToml(text: string): ReturnType<typeof readAppConfig> {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: HOST });
}

function problemsOf(text: string): readonly string[] {
  try {
    readToml(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the configuration was accepted");
}
