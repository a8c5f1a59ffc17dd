import { WALL_LEVELS } from "../../../host/walls/walls.ts";
import type { Attack } from "./attack.ts";
import { CODE, FILES, STORAGE } from "./attacks/files.ts";
import { LIMITS } from "./attacks/limits.ts";
import { NETWORK, SOCKETS, WIRE } from "./attacks/network.ts";
import { KERNEL, PROCESSES, USERS } from "./attacks/processes.ts";

/** What a build could do to others if it lived behind weaker walls than a replica. */
const NAMES: ReadonlySet<string> = new Set([
  "read the master key",
  "read the owner's token",
  "make a file in the data directory",
  "read another project's file",
  "make a file in another project",
  "read another app's code",
  "change the harness",
  "list the service's sockets",
  "make a file for others of the host",
  "read the service's environment",
  "read a victim's environment",
  "trace a victim",
  "signal the service",
  "signal another app's replica",
  "see processes of others",
  "ask the control socket for the owner's token",
  "connect to a docker.sock",
  "make a user namespace",
  "load a program into the kernel",
  "keep a capability",
]);

/** The same attacks from a command of a build, which runs code that an app brings as well. */
const BUILDS: readonly Attack[] = [...FILES, ...PROCESSES, ...SOCKETS, ...KERNEL]
  .filter(({ name, stoppedBy }) => NAMES.has(name) && (WALL_LEVELS as readonly string[]).includes(stoppedBy))
  .map((attack) => ({ ...attack, name: `in a build: ${attack.name}`, from: "build" }));

/** Every way out that we know of, by kind. */
export const ATTACKS: Readonly<Record<string, readonly Attack[]>> = {
  files: FILES,
  storage: STORAGE,
  code: CODE,
  processes: PROCESSES,
  users: USERS,
  sockets: SOCKETS,
  kernel: KERNEL,
  network: NETWORK,
  wire: WIRE,
  limits: LIMITS,
  builds: BUILDS,
};
