import type { Attack } from "./attack.ts";
import { BUILDS } from "./attacks/builds.ts";
import { CODE } from "./attacks/code.ts";
import { FILES } from "./attacks/files.ts";
import { KERNEL } from "./attacks/kernel.ts";
import { LIMITS } from "./attacks/limits.ts";
import { NETWORK } from "./attacks/network.ts";
import { PROCESSES } from "./attacks/processes.ts";
import { SOCKETS } from "./attacks/sockets.ts";
import { STORAGE } from "./attacks/storage.ts";
import { USERS } from "./attacks/users.ts";
import { WIRE } from "./attacks/wire.ts";

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
