import type { ContainerStart } from "../../../src/host/containers/start-container.ts";
import { BASE_IMAGE } from "./base-image.ts";

/** A container that does nothing for ten minutes. */
export const SLEEPING: Omit<ContainerStart, "projectId" | "id"> = {
  image: BASE_IMAGE,
  program: "/bin/sleep",
  args: ["600"],
  variables: {},
  mounts: [],
  user: null,
  limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
  runtime: null,
  hasNetwork: false,
  gpus: [],
  port: null,
  input: null,
};
