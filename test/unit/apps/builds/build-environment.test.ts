import { expect, test } from "vitest";
import { buildEnvironment } from "../../../../src/apps/builds/build-environment.ts";
import { verifies } from "../../../verifies.ts";

const SITE = { dataDir: "/data", projectId: "p-one", scratch: null };

test("a build sees the host's package settings and nothing else of the service", () => {
  const seen = buildEnvironment(
    {
      ...SITE,
      host: {
        PATH: "/usr/bin",
        PIP_INDEX_URL: "https://index.test",
        UV_INDEX_URL: "https://index.test",
        https_proxy: "http://proxy.test",
        PIP_TARGET: "/elsewhere",
        UV_SYSTEM_PYTHON: "1",
        MILLRACE_DATABASE_URL: "postgres://secret",
        AWS_SECRET_ACCESS_KEY: "secret",
        PYTHONPATH: "/secret",
      },
    },
    "/environment/bin",
    "/environment",
  );
  expect(seen).toMatchObject({
    PATH: "/environment/bin:/usr/bin",
    PIP_INDEX_URL: "https://index.test",
    UV_INDEX_URL: "https://index.test",
    https_proxy: "http://proxy.test",
    VIRTUAL_ENV: "/environment",
    PIP_REQUIRE_VIRTUALENV: "1",
  });
  expect(seen).toHaveProperty("PIP_PYTHON", "/environment/bin/python");
  expect(Object.keys(seen)).not.toContain("PIP_TARGET");
  expect(Object.keys(seen)).not.toContain("UV_SYSTEM_PYTHON");
  expect(JSON.stringify(seen)).not.toContain("secret");
});

test("packages that versions share are not told to installers", () => {
  const seen = buildEnvironment({ ...SITE, host: { PIP_PYTHON: "/usr/bin/python3" } }, "/shared/bin", null);
  expect(seen["PATH"]).toBe("/shared/bin");
  expect(Object.keys(seen)).not.toContain("PIP_PYTHON");
  expect(Object.keys(seen)).not.toContain("VIRTUAL_ENV");
});

verifies(
  "builds.own-cache",
  "installers keep what they fetch in a folder of the project's, whatever the host says",
  () => {
    const host = {
      HOME: "/home/service",
      PIP_CACHE_DIR: "/shared",
      UV_CACHE_DIR: "/shared",
      UV_LINK_MODE: "symlink",
    };
    const caches = { PIP_CACHE_DIR: "/data/caches/p-one/pip", UV_CACHE_DIR: "/data/caches/p-one/uv" };
    expect(buildEnvironment({ ...SITE, host }, "/bin", null)).toMatchObject({
      ...caches,
      HOME: "/home/service",
    });
    const walled = buildEnvironment({ ...SITE, host, scratch: "/data/scratch/s" }, "/bin", null);
    const home = {
      HOME: "/data/scratch/s",
      TMPDIR: "/data/scratch/s",
      XDG_CONFIG_HOME: "/home/service/.config",
    };
    expect(walled).toMatchObject({ ...caches, ...home, UV_LINK_MODE: "copy" });
  },
);
