import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { onTestFinished } from "vitest";
import { Containers } from "../../../src/host/containers/containers.ts";
import type { ContainerTool } from "../../../src/host/containers/container-tool.ts";
import { DeploySite } from "../../integration/deploys/site.ts";
import { type TestService, testService } from "../service.ts";
import { makeZip } from "../zip-maker.ts";
import { BASE_IMAGE } from "./base-image.ts";

/** A server in an image, and what its deploy asks for. */
export const SERVER = readFileSync(path.join(import.meta.dirname, "server.py"), "utf8");
export const DOCKERFILE = `FROM ${BASE_IMAGE}
RUN echo "a layer"
COPY server.py /srv/server.py
WORKDIR /srv
CMD ["python3", "server.py"]
`;
export const AS_SERVER = { runtime: "custom", dockerfilePath: "./Dockerfile", port: 8000 };

/** A bundle of these files. */
export function zip(files: Readonly<Record<string, string>>): Buffer {
  return makeZip(Object.entries(files).map(([name, content]) => ({ name, content })));
}

/** A service of the test's own that uses that tool; its images go with it. */
export async function serviceWith(
  tool: ContainerTool,
  flags: Readonly<Record<string, unknown>> = {},
): Promise<{ test: TestService; site: DeploySite; containers: Containers }> {
  onTestFinished(async () => {
    if (!places) return;
    const { containers, projectId } = places;
    const all = await containers.run(tool, projectId, [
      "images",
      "-q",
      "--filter",
      `label=${containers.label}`,
    ]);
    const ids = all.stdout.split("\n").filter((id) => id !== "");
    if (ids.length > 0) await containers.run(tool, projectId, ["rmi", "-f", ...ids]);
    await containers.close();
    await rm(places.dataDir, { recursive: true, force: true });
  });
  const test = await testService({}, { containerEngine: tool.kind, isolation: "auto", ...flags });
  const containers = new Containers({ containerEngine: tool.kind, dataDir: test.settings.dataDir });
  const places = { containers, projectId: test.service.owner.projectId, dataDir: test.settings.dataDir };
  return { test, site: new DeploySite(test), containers };
}
