import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { buildEnvironment, remoteEnvironment } from "../../../../src/apps/builds/build-environment.ts";
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

verifies(
  "pod-builds.build",
  "a seat elsewhere is told the index of pip's own file, and whom it trusts",
  async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "millrace-pip-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const file = path.join(folder, "pip.conf");
    await writeFile(
      file,
      "[global]\nindex-url = http://index.test/simple\ntrusted-host = index.test\n    b.test\n",
    );
    const seen = await remoteEnvironment({ PIP_CONFIG_FILE: file, PIP_CERT: "/cert.pem" }, "/bin", null);
    expect(seen).toMatchObject({
      PIP_INDEX_URL: "http://index.test/simple",
      PIP_TRUSTED_HOST: "index.test b.test",
    });
    expect(JSON.stringify(seen)).not.toContain(folder);
  },
);
