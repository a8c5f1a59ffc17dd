import { expect, test } from "vitest";

import { readDeployRequest } from "../../../src/apps/deploys/deploy-request.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { ConfigError } from "../../../src/config/problems.ts";
import { verifies } from "../../verifies.ts";

verifies("config.min-replicas.bounds", "min_replicas takes 0 to 2000 and nothing outside", () => {
  const fewest = (raw: string): unknown => read(`[scaling]\nmin_replicas = ${raw}`).scaling.minReplicas;
  expect(["0", "2000"].map(fewest)).toEqual([0, 2000]);
  for (const raw of ["-1", "2001", "1.5", '"1"']) {
    expect(problemsOf(`[scaling]\nmin_replicas = ${raw}`)).toEqual([
      expect.stringContaining("scaling.min_replicas must be a whole number from 0 to 2000, got "),
    ]);
  }
});

verifies(
  "config.max-replicas.default",
  "the most replicas follow the host, and are never fewer than the fewest",
  () => {
    const most = (text: string, cpuCount: number): number =>
      readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: { cpuCount } }).config.scaling
        .maxReplicas;
    expect(most("", 1)).toBe(2);
    expect(most("", 64)).toBe(64);
    expect(most("[scaling]\nmin_replicas = 9", 4)).toBe(9);
    expect(problemsOf("[scaling]\nmin_replicas = 3\nmax_replicas = 2")).toEqual([
      "scaling.max_replicas must be at least min_replicas, which is 3, got 2",
    ]);
  },
);

verifies("config.cooldown.bounds", "cooldown takes 0 to 3600 s and nothing outside", () => {
  const cooldown = (raw: string): unknown => read(`[scaling]\ncooldown = ${raw}`).scaling.cooldownSeconds;
  expect(["0", "3600", '"1h"'].map(cooldown)).toEqual([0, 3600, 3600]);
  for (const raw of ["-1", "3601", '"61m"', "true"]) {
    expect(problemsOf(`[scaling]\ncooldown = ${raw}`)).toEqual([
      expect.stringContaining("scaling.cooldown must be a duration from 0s to 1h, got "),
    ]);
  }
});

verifies("config.network", "network takes true, false and egress, and nothing that looks like them", () => {
  const network = (raw: string): unknown => read(`[deployment]\nnetwork = ${raw}`).deployment.network;
  expect(["true", "false", '"egress"'].map(network)).toEqual([true, false, "egress"]);
  for (const raw of ['"true"', '"Egress"', "1", '["egress"]']) {
    expect(problemsOf(`[deployment]\nnetwork = ${raw}`)).toEqual([
      expect.stringContaining('deployment.network must be true, false or "egress", got '),
    ]);
  }
});

verifies("config.response-grace-period.bounds", "the grace period takes 1 s and 12 hours", () => {
  const grace = (raw: string): unknown =>
    read(`response_grace_period = ${raw}`).scaling.responseGracePeriodSeconds;
  expect(["1", '"1s"', "43200", '"12h"'].map(grace)).toEqual([1, 1, 43_200, 43_200]);
});

for (const raw of [
  "0",
  "-1",
  "1e9",
  "43201",
  "nan",
  "inf",
  '"15 minutes"',
  '"13h"',
  '"0s"',
  "true",
  "[900]",
  "2020-01-01",
]) {
  verifies(
    "config.response-grace-period.bounds",
    `a grace period of ${raw} is refused, at the top level and in scaling`,
    () => {
      const bound = "response_grace_period must be a duration from 1s to 12h, got ";
      expect(problemsOf(`response_grace_period = ${raw}`)).toEqual([expect.stringContaining(bound)]);
      expect(problemsOf(`[scaling]\nresponse_grace_period = ${raw}`)).toEqual([
        expect.stringContaining(`scaling.${bound}`),
      ]);
    },
  );
}

verifies("config.durations", "a duration is a number of seconds or text such as 90s, 15m, 1h30m", () => {
  const grace = (raw: string): unknown =>
    read(`response_grace_period = ${raw}`).scaling.responseGracePeriodSeconds;
  expect(["90", "1.5", '"90s"', '"15m"', '"1h30m"', '"1h 30m"', '"90"'].map(grace)).toEqual([
    90, 1.5, 90, 900, 5400, 5400, 90,
  ]);
});

verifies("config.disable-auth", "an app is public when disable_auth is true, and only then", () => {
  expect(read("").deployment.disableAuth).toBe(false);
  expect(read("[deployment]\ndisable_auth = false").deployment.disableAuth).toBe(false);
  expect(read("[deployment]\ndisable_auth = true").deployment.disableAuth).toBe(true);
  for (const raw of ['"true"', "1", '"yes"', "[true]", "{ value = true }"]) {
    expect(problemsOf(`[deployment]\ndisable_auth = ${raw}`)).toEqual([
      expect.stringContaining("deployment.disable_auth must be true or false, got "),
    ]);
  }
});

test.each(["Upper", "under_score", "-a", "a-", "a.b", "x".repeat(64), "a b", "é", "../etc"])(
  "the app name %j is refused",
  (name) => {
    expect(problemsOf(`[deployment]\nname = "${name}"`)).toHaveLength(1);
  },
);

verifies("ceilings.refused", "a limit beyond its bound is refused, wherever it is set", () => {
  const text = `
max_body = "256MiB"
max_result = "1GiB"
max_chunk = 67108865
max_transcript = "1025MiB"
`;
  const problems = [
    'limits.max_result must be a size from 1KiB to 256MiB, got "1GiB"',
    "limits.max_chunk must be a size from 1KiB to 64MiB, got 67108865",
    'limits.max_transcript must be a size from 1KiB to 1GiB, got "1025MiB"',
  ];
  expect(problemsOf(`[limits]${text}`)).toEqual(problems);
  const payload = { name: "app", cerebrium_toml: `[cerebrium.limits]${text}` };
  const details = problems.map((problem) => ({ problem: `cerebrium.${problem}` }));
  expect(() => readDeployRequest(payload, { cpuCount: 4 })).toThrow(
    expect.objectContaining({ code: "deploy_invalid", detail: expect.objectContaining({ details }) }),
  );
});

function read(text: string): ReturnType<typeof readAppConfig>["config"] {
  return readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: { cpuCount: 4 } }).config;
}

function problemsOf(text: string): readonly string[] {
  try {
    read(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the configuration was accepted");
}
