import { Containers } from "../../../src/host/containers/containers.ts";
import { startContainer } from "../../../src/host/containers/start-container.ts";
import { SLEEPING } from "./sleeping.ts";

// A process that has a container and waits for its own end: `hold-container.ts podman|docker DATA_DIR`.
const [, , kind, dataDir = ""] = process.argv;
const containers = new Containers({ containerEngine: kind === "docker" ? "docker" : "podman", dataDir });
const found = await containers.find();
if (!("tool" in found)) throw new Error(found.lack);
const container = await startContainer(containers, found.tool, {
  ...SLEEPING,
  projectId: "p-held",
  id: "held",
  variables: { SECRET: "s3cret" },
});
while ((await container.pid()) === 0);
process.stdout.write(`${await container.pid()}\n`);
