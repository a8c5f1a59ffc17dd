import { Containers } from "../../../src/host/containers/containers.ts";
import { startContainer } from "../../../src/host/containers/start-container.ts";
import { BASE_IMAGE } from "./base-image.ts";

// A process that has a container and waits for its own end: `hold-container.ts podman|docker DATA_DIR`.
const [, , kind, dataDir = ""] = process.argv;
const containers = new Containers({ containerEngine: kind === "docker" ? "docker" : "podman", dataDir });
const found = await containers.find();
if (!("tool" in found)) throw new Error(found.lack);
const container = await startContainer(containers, found.tool, {
  projectId: "p-held",
  id: "held",
  image: BASE_IMAGE,
  program: "/bin/sleep",
  args: ["600"],
  variables: { SECRET: "s3cret" },
  mounts: [],
  user: null,
  limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
  runtime: null,
  hasNetwork: false,
  port: null,
  input: null,
});
while ((await container.pid()) === 0);
process.stdout.write(`${await container.pid()}\n`);
