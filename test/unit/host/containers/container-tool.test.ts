import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import {
  findContainerTool,
  hasKnownHoles,
  toolEnvironment,
} from "../../../../src/host/containers/container-tool.ts";
import { verifies } from "../../../verifies.ts";

/** A host whose path has these programs alone. */
async function hostWith(programs: Readonly<Record<string, string>>): Promise<NodeJS.ProcessEnv> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-tools-"));
  onTestFinished(async () => await rm(folder, { recursive: true }));
  await mkdir(path.join(folder, "bin"));
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(path.join(folder, "bin", name), `#!/bin/sh\n${script}\n`);
    await chmod(path.join(folder, "bin", name), 0o755);
  }
  return { PATH: path.join(folder, "bin"), MILLRACE_MASTER_KEY: "secret" };
}

const BROKEN = "echo 'cannot connect to its socket' >&2; exit 125";
const DOCKER = `echo '{"ServerVersion":"27.1","Runtimes":{"runc":{},"runsc":{}},"SecurityOptions":["name=rootless"]}'`;
const PODMAN = `echo '{"version":{"Version":"5.4.0"},"host":{"security":{"rootless":false}},"store":{"graphDriverName":"vfs","graphRoot":"/images"}}'`;

verifies("images.engine", "one that is installed and does not work is passed over, and told", async () => {
  const both = await hostWith({ podman: BROKEN, docker: DOCKER });
  expect(await findContainerTool("auto", both)).toMatchObject({
    tool: { kind: "docker", version: "27.1", isRootless: true, runtimes: ["runc", "runsc"], store: null },
  });
  expect(await findContainerTool("podman", both)).toEqual({
    lack: "podman does not work: cannot connect to its socket",
  });
  expect(await findContainerTool("none", both)).toEqual({ lack: "MILLRACE_CONTAINER_ENGINE=none" });
  expect(await findContainerTool("auto", await hostWith({}))).toEqual({
    lack: "podman is not installed, docker is not installed",
  });
  // Its daemon is not there: the program answers all the same.
  const idle = await hostWith({ docker: `echo '{"ServerErrors":["no daemon"]}'` });
  expect(await findContainerTool("auto", idle)).toEqual({
    lack: "podman is not installed, docker does not work: no daemon",
  });
});

verifies("images.engine", "podman comes first, and tells where the operator's images are", async () => {
  const host = await hostWith({ podman: PODMAN, docker: DOCKER, crun: "" });
  expect(await findContainerTool("auto", host)).toMatchObject({
    tool: {
      kind: "podman",
      version: "5.4.0",
      isRootless: false,
      runtimes: ["crun"],
      store: { driver: "vfs", folder: "/images" },
    },
  });
});

verifies("images.engine", "it finds nothing of the service's own environment but where things are", () => {
  const env = toolEnvironment({
    PATH: "/bin",
    HOME: "/h",
    MILLRACE_DATABASE_URL: "x",
    https_proxy: "p",
    LD_PRELOAD: "y",
  });
  expect(env).toEqual({ PATH: "/bin:/usr/local/sbin:/usr/sbin:/sbin", HOME: "/h", https_proxy: "p" });
});

verifies("images.holes", "one that is known not to hold is used only by its name", async () => {
  const old = PODMAN.replace("5.4.0", "4.3.1");
  const host = await hostWith({ podman: old });
  expect(await findContainerTool("podman", host)).toMatchObject({ tool: { version: "4.3.1" } });
  expect(await findContainerTool("auto", host)).toEqual({
    lack: expect.stringMatching(
      /^podman 4\.3\.1 is not used, .* update it to 5\.3\.2, .* docker is not installed$/,
    ),
  });
  expect(await findContainerTool("auto", await hostWith({ podman: old, docker: DOCKER }))).toMatchObject({
    tool: { kind: "docker" },
  });
});

verifies("images.holes", "podman is known to hold from 5.3.2 on", () => {
  const isOpen = (version: string): boolean => hasKnownHoles({ kind: "podman", version });
  expect(["4.3.1", "4.9.4-dev", "5.2", "5.3.1", ""].filter((version) => !isOpen(version))).toEqual([]);
  expect(["5.3.2", "5.3.2-rhel", "5.4", "5.10.0", "6.0.0"].filter(isOpen)).toEqual([]);
  expect(hasKnownHoles({ kind: "docker", version: "20.10" })).toBe(false);
});
