import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished } from "vitest";
import { Containers } from "../../src/host/containers/containers.ts";
import type { ContainerTool } from "../../src/host/containers/container-tool.ts";
import { startContainer, type StartedContainer } from "../../src/host/containers/start-container.ts";
import { BASE_IMAGE, makeBaseImage, removeBaseImage, workingTools } from "../support/images/base-image.ts";
import { SLEEPING } from "../support/images/sleeping.ts";
import { processes } from "../support/images/processes.ts";
import { AS_SERVER, serviceWith, zip } from "../support/images/service-with.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const tools = await workingTools();

beforeAll(async () => await makeBaseImage(tools));
afterAll(async () => await removeBaseImage(tools));

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-hostile-"));
  onTestFinished(async () => await rm(folder, { recursive: true, force: true }));
  return folder;
}

describe.each(tools)("$kind", (tool) => {
  verifies("images.reach", "no Dockerfile names files of the host", async () => {
    const { site } = await serviceWith(tool);
    const folder = await temporaryFolder();
    const secret = path.join(folder, "secret");
    const archive = path.join(folder, "backup.tar");
    await writeFile(secret, "s3cret\n");
    execFileSync("tar", ["-C", folder, "-cf", archive, "secret"]);
    const log = async (dockerfile: string): Promise<string> => {
      const payload = { ...AS_SERVER, dockerfilePath: "Dockerfile.in" };
      const { buildId, status } = await site.deploy("app", zip({ "Dockerfile.in": dockerfile }), payload);
      expect(status).toBe("build_failure");
      return await site.log("app", buildId);
    };
    const included = await log(`FROM ${BASE_IMAGE}\n#include "${secret}"\nRUN exit 7\n`);
    expect(included).toContain("exit 7");
    const read = await log(`FROM tarball:${archive}\nRUN cat /secret\n`);
    expect(read).toMatch(/rejected by policy|invalid reference/);
    expect(included + read).not.toContain("s3cret");
  });

  verifies("images.cut-off", "a cancelled build leaves no container behind", async () => {
    const { site, containers } = await serviceWith(tool);
    const { buildId, uploadUrl } = await site.begin("app", AS_SERVER);
    const Dockerfile = `FROM ${BASE_IMAGE}\nRUN echo a > /a\nRUN echo asleep; sleep 600\n`;
    await site.put(uploadUrl, zip({ Dockerfile }));
    await site.logged("app", buildId, "\nasleep");
    await site.cancel("app", buildId);
    expect(await site.ended("app", buildId)).toBe("cancelled");
    if (tool.kind === "docker") return;
    const { stdout } = await containers.run(tool, site.projectId, ["ps", "-a", "-q", "--external"]);
    expect(stdout).toBe("");
  });

  verifies("images.early-end", "a container that is ended at once is gone", async () => {
    const { started, left } = await sleeper(tool);
    started.end();
    await started.exited;
    expect(await left()).toBe("");
  });

  verifies("images.helpers", "a container ends without those who stand beside it", async () => {
    const { started, name, left } = await sleeper(tool);
    await until("it runs", async () => (await started.pid()) > 0);
    for (const [command, signal] of [
      ["read -r _", "SIGKILL"],
      ["\0start\0--attach\0", "SIGSTOP"],
    ] as const) {
      const pids = processes().filter((each) => [command, name].every((part) => each.command.includes(part)));
      expect(pids).toHaveLength(1);
      process.kill(pids[0]?.pid ?? 0, signal);
    }
    started.end();
    await started.exited;
    expect(await left()).toBe("");
  });
});

/** A container that would sleep for long. */
async function sleeper(
  tool: ContainerTool,
): Promise<{ started: StartedContainer; name: string; left: () => Promise<string> }> {
  const containers = new Containers({ containerEngine: tool.kind, dataDir: await temporaryFolder() });
  onTestFinished(async () => await containers.close());
  const projectId = "p-sleeps";
  const id = "sleeps";
  const started = await startContainer(containers, tool, { ...SLEEPING, projectId, id });
  const ours = ["ps", "-a", "-q", "--filter", `label=${containers.label}`];
  const left = async (): Promise<string> => (await containers.run(tool, projectId, ours)).stdout;
  return { started, name: containers.nameOf(id), left };
}
