import { expect, test } from "vitest";
import { readDeployRequest } from "../../../../src/apps/deploys/deploy-request.ts";
import { AppError } from "../../../../src/model/errors.ts";

const host = { cpuCount: 2 };

function refusal(payload: Record<string, unknown>): AppError {
  try {
    readDeployRequest(payload, host);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error("it was taken");
}

test("a payload is taken with the members that count, and without any other", () => {
  const { name, payload } = readDeployRequest(
    {
      name: "hello",
      cooldownPeriodSeconds: 5,
      cerebrium_toml: "[cerebrium.scaling]\nmax_replicas = 3\n",
      dockerAuth: "secret",
      cliVersion: "2.1.0",
      __proto__: { x: 1 },
      constructor: "x",
    },
    host,
  );
  expect(name).toBe("hello");
  expect(payload).toEqual({
    name: "hello",
    cooldownPeriodSeconds: 5,
    cerebrium_toml: "[cerebrium.scaling]\nmax_replicas = 3\n",
  });
});

test("the name may come from the file's text", () => {
  const toml = '[cerebrium.deployment]\nname = "from-toml"\n';
  expect(readDeployRequest({ cerebrium_toml: toml }, host).name).toBe("from-toml");
  expect(readDeployRequest({ name: "named", cerebrium_toml: toml }, host).name).toBe("named");
});

test("everything that is wrong is told at once", () => {
  const error = refusal({ name: "Not A Name", minReplicaCount: -1, runtime: "other" });
  expect([error.code, error.status]).toEqual(["deploy_invalid", 422]);
  expect(error.detail.details).toEqual([
    { problem: expect.stringMatching(/^name must be 1 to 63 lower-case letters.*got "Not A Name"/) },
    { problem: expect.stringMatching(/^minReplicaCount must be .*got -1/) },
    { problem: expect.stringMatching(/^runtime must be one of "cortex", "custom", got "other"/) },
  ]);
  expect(refusal({ name: null }).message).toBe("name is required: the app's name");
});
