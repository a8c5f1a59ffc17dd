import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import {
  checkImages,
  checkLimits,
  checkNode,
  checkPythons,
  describeCuda,
} from "../../../../../src/cli/operator/doctor/host-checks.ts";
import { readSettings } from "../../../../../src/config/settings.ts";
import { REPOSITORY } from "../../../../support/source-files.ts";
import { verifies } from "../../../../verifies.ts";

/** What those engines need besides. */
const ELSEWHERE = {
  MILLRACE_KUBERNETES_IMAGE: "worker:{python}",
  MILLRACE_RAY_ADDRESS: "http://127.0.0.1:8265",
};

test("the oldest Node that doctor takes is the one that package.json names", () => {
  const { engines } = JSON.parse(readFileSync(path.join(REPOSITORY, "package.json"), "utf8")) as {
    engines: { node: string };
  };
  const oldest = engines.node.replace(">=", "");
  const [major, minor = 0] = oldest.split(".").map(Number);
  expect(checkNode(`${oldest}.0`).status).toBe("ok");
  expect(checkNode("100.0.0").status).toBe("ok");
  expect(checkNode(`${major}.${minor - 1}.9`)).toMatchObject({
    status: "fail",
    remedy: `install Node ${oldest} or newer`,
  });
});

test("where apps run elsewhere, this host's limits are not theirs", async () => {
  const walls = { python: null, offer: null, level: null };
  const told = async (engine: string) => {
    const { settings } = readSettings({ flags: {}, env: { MILLRACE_ENGINE: engine, ...ELSEWHERE } });
    return await checkLimits(settings, walls, undefined);
  };
  expect(await told("kubernetes")).toMatchObject({ status: "ok" });
  const { status, message, remedy } = await told("ray");
  expect(status).toBe("warn");
  expect(message).toMatch(
    /^apps run on Ray: memory: enforced by a watcher.*; cpu: not enforced \(Ray places/,
  );
  expect(remedy).toContain("docs/ray.md");
});

test("on a host without any Python there is something to do about interpreter, versions and packages", async () => {
  const { settings } = readSettings({ flags: { python: "/no/such/python" }, env: {} });
  const findings = await checkPythons(settings, { PATH: "/no/such/folder" });
  expect(findings.map(({ check, status }) => `${check} ${status}`)).toEqual([
    "python fail",
    "python versions warn",
    "packages warn",
  ]);
});

verifies(
  "images.engine",
  "on Kubernetes, the cluster's registry counts and not this host's engine",
  async () => {
    const told = async (env: Record<string, string>) => {
      const { settings } = readSettings({
        flags: {},
        env: { MILLRACE_ENGINE: "kubernetes", ...ELSEWHERE, ...env },
      });
      return await checkImages(settings, { PATH: "/nowhere" });
    };
    expect(await told({})).toMatchObject({
      status: "warn",
      message: "apps with a Dockerfile cannot be deployed: MILLRACE_REGISTRY is unset",
      remedy: expect.stringContaining("docs/kubernetes.md") as string,
    });
    expect(await told({ MILLRACE_REGISTRY: "registry.internal/millrace" })).toMatchObject({
      status: "ok",
      message: "built in the cluster, for registry.internal/millrace",
    });
  },
);

verifies("doctor.cuda", "what doctor says of CUDA names the wall, and what to do", () => {
  const said = describeCuda({ bare: null, walled: null, walls: [] }, "uid", null);
  expect(said).toMatchObject({ status: "ok", message: "starts behind uid" });
  for (const level of ["process", null] as const)
    expect(describeCuda({ bare: null, walled: null, walls: [] }, level, null)).toMatchObject({
      status: "warn",
      message: expect.stringContaining("every app can open every GPU"),
    });
  const why = "cuInit fails with 304 (CUDA_ERROR_OPERATING_SYSTEM)";
  expect(describeCuda({ bare: null, walled: why, walls: ["landlock", "seccomp"] }, "userns", null)).toEqual({
    check: "cuda",
    status: "fail",
    message: `starts on this machine, but not behind userns: ${why}. What stops it: Landlock and the seccomp filter`,
    remedy: "see docs/gpus.md",
  });
  expect(describeCuda({ bare: why, walled: null, walls: [] }, "uid", null)).toMatchObject({
    status: "fail",
    message: expect.stringContaining("even without isolation"),
    remedy: expect.stringContaining("nvidia-smi"),
  });
});
