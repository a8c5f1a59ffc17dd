import { expect, test } from "vitest";

import { readAppConfig } from "../../../src/config/app-config.ts";
import { APP_KEYS } from "../../../src/config/app-shape.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

const HOST = { cpuCount: 4 };

/** Every configuration field of `POST /v2/projects/{p}/apps`, as its contract spells it. */
const PAYLOAD = {
  name: "my-app",
  runtime: "custom",
  pythonVersion: "3.11",
  baseImage: "debian:bookworm-slim",
  disableAuth: true,
  useUv: true,
  include: ["a"],
  exclude: ["b"],
  shellCommands: ["c"],
  preBuildCommands: ["d"],
  deploymentInitializationTimeout: 61,
  cpu: 1.5,
  memory: 2.5,
  compute: ["X"],
  gpuCount: 1,
  gpuMemory: 11,
  provider: "aws",
  region: "eu",
  minReplicaCount: 1,
  maxReplicaCount: 7,
  cooldownPeriodSeconds: 31,
  replicaConcurrency: 2,
  responseGracePeriodSeconds: 901,
  scalingMetric: "cpu_utilization",
  scalingTarget: 50,
  scalingBuffer: 1,
  rollOutDurationSeconds: 5,
  evaluationIntervalSeconds: 31,
  loadBalancingAlgorithm: "round-robin",
  computeTier: "t",
  containerRuntime: "v1",
  entrypoint: ["e"],
  port: 9000,
  healthcheckEndpoint: "/h",
  readycheckEndpoint: "/r",
  dockerfilePath: "Dockerfile",
};

test("every configuration field of a deploy payload is read", () => {
  const { config, warnings } = readAppConfig({ payload: PAYLOAD, host: HOST });
  expect(warnings).toEqual([]);
  expect(config).toMatchObject({
    deployment: {
      name: "my-app",
      pythonVersion: "3.11",
      disableAuth: true,
      include: ["a"],
      exclude: ["b"],
      shellCommands: ["c"],
      preBuildCommands: ["d"],
      dockerBaseImageUrl: "debian:bookworm-slim",
      useUv: true,
      containerRuntime: "v1",
      deploymentInitializationTimeoutSeconds: 61,
    },
    hardware: {
      cpu: 1.5,
      memoryGb: 2.5,
      compute: ["X"],
      gpuCount: 1,
      gpuMemoryGb: 11,
      provider: "aws",
      region: "eu",
    },
    named: { cpu: 1.5, memoryGb: 2.5, templateKeepSeconds: null },
    scaling: {
      minReplicas: 1,
      maxReplicas: 7,
      replicaConcurrency: 2,
      cooldownSeconds: 31,
      responseGracePeriodSeconds: 901,
      scalingMetric: "cpu_utilization",
      scalingTarget: 50,
      scalingBuffer: 1,
      rollOutDurationSeconds: 5,
      evaluationIntervalSeconds: 31,
      loadBalancingAlgorithm: "round-robin",
      computeTier: "t",
    },
    customRuntime: {
      entrypoint: ["e"],
      port: 9000,
      healthcheckEndpoint: "/h",
      readycheckEndpoint: "/r",
      dockerfilePath: "Dockerfile",
    },
  });
  const members = APP_KEYS.flatMap(({ payload }) => payload ?? []);
  expect([...members, "runtime"].toSorted()).toEqual(Object.keys(PAYLOAD).toSorted());
});

verifies(
  "config.precedence",
  "the payload wins over its toml text, that over the file, and the file over the default",
  () => {
    const text = (cooldown: number, queue: number): string =>
      `[cerebrium.scaling]\ncooldown = ${cooldown}\nmax_queue = ${queue}`;
    const cooldownOf = (payload: unknown, file: string): number =>
      readAppConfig({ payload, toml: { text: file, fileName: "cerebrium.toml" }, host: HOST }).config.scaling
        .cooldownSeconds;
    expect(cooldownOf({ cooldownPeriodSeconds: 1, cerebrium_toml: text(2, 2) }, text(3, 3))).toBe(1);
    expect(cooldownOf({ cerebrium_toml: text(2, 2) }, text(3, 3))).toBe(2);
    expect(cooldownOf({ cooldownPeriodSeconds: null, cerebrium_toml: null }, text(3, 3))).toBe(3);
    expect(cooldownOf({ cooldownPeriodSeconds: null, cerebrium_toml: "" }, "")).toBe(30);
  },
);

test("what a client sends beside the configuration is ignored", () => {
  const payload = { cliVersion: "2", dockerAuth: "secret", logLevel: 5, constructor: 1, somethingNew: {} };
  expect(readAppConfig({ payload, host: HOST })).toEqual(readAppConfig({ host: HOST }));
});

test("empty text from a client leaves what may be unset unset", () => {
  const payload = { baseImage: "", runtime: "custom", healthcheckEndpoint: "", shellCommands: null };
  const { config } = readAppConfig({ payload, host: HOST });
  expect(config.deployment.dockerBaseImageUrl).toBeNull();
  expect(config.customRuntime).toMatchObject({ healthcheckEndpoint: null, port: 8000 });
});

test("the payload's runtime decides over a table in the file", () => {
  const toml = { text: "[runtime.custom]\nport = 5000", fileName: "millrace.toml" };
  expect(readAppConfig({ toml, host: HOST }).config.customRuntime?.port).toBe(5000);
  expect(readAppConfig({ toml, payload: { runtime: "cortex" }, host: HOST }).config.customRuntime).toBeNull();
  expect(problemsOf({ runtime: "magic" })).toEqual([
    'runtime must be one of "cortex", "custom", got "magic"',
  ]);
});

test("problems of a payload name its own members", () => {
  expect(
    problemsOf({ minReplicaCount: "1", maxReplicaCount: 2001, disableAuth: "true", cerebrium_toml: 5 }),
  ).toEqual([
    "cerebrium_toml must be the text of a TOML file, got 5",
    'disableAuth must be true or false, got "true"',
    'minReplicaCount must be a whole number from 0 to 2000, got "1"',
    "maxReplicaCount must be a whole number from 1 to 2000, got 2001",
  ]);
  expect(problemsOf({ minReplicaCount: 5, maxReplicaCount: 2 })).toEqual([
    "maxReplicaCount must be at least min_replicas, which is 5, got 2",
  ]);
});

test.each([[null], [[]], ["text"], [5]])("a payload that is no object is a problem (%j)", (payload) => {
  expect(problemsOf(payload)).toEqual([expect.stringMatching(/^the payload must be an object, got /)]);
});

function problemsOf(payload: unknown): readonly string[] {
  try {
    readAppConfig({ payload, host: HOST });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the payload was accepted");
}
