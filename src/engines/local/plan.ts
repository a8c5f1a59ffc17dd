import { PYTHON_DIR } from "../../config/package-files.ts";
import type { Watched } from "../../host/limits/limits.ts";
import type { Reach, WalledHost } from "../../host/walls/walls.ts";

/** In place of an address: the harness asks its agent for its connections. */
export const DOOR_ADDRESS = "door";

/** The kernel takes no longer argument or variable, with its end. */
const MAX_STRING_BYTES = 128 * 1024;

/** Below /dev, with no way out. */
const DEVICE_FILE = /^\/dev(?:\/[\w-][\w.-]*){1,4}$/;

/** What an agent is to start, and what it watches. */
export type Plan = {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** One line for its stdin. */
  readonly order?: string | null;
  /** Where the service listens for it, if it calls home. */
  readonly home?: string | null;
  readonly input?: string | null | undefined;
  readonly walls: { readonly host: WalledHost; readonly reach: Reach } | null;
  /** The GPUs that it can open behind walls; absent or null for none. */
  readonly gpus?: SeatGpus | null;
  readonly watched: Watched | null;
  /** The port that a server was given, and the one that its author wrote. */
  readonly server?: { readonly port: number; readonly authored: number } | null;
};

/** GPUs by their device files, such as `/dev/nvidia0`. */
type SeatGpus = {
  /** All that the seat may ever be granted. */
  readonly all: readonly string[];
  readonly granted: readonly string[];
};

type Field = readonly [name: string, value: string];

/** A plan as an agent reads it (`python/millrace_walls/plan.py`). Throws for what cannot be handed to a process at all. */
export function packPlan(plan: Plan): string {
  const { program, args, cwd, env, order, home, input, walls, gpus, watched, server } = plan;
  const fields: readonly Field[] = [
    ["service", "true"],
    ["program", program],
    ["bundle", cwd],
    ...present({ order, home, input }),
    ...(walls === null ? UNWALLED : [...wallFields(walls.host, walls.reach), ...gpuFields(gpus ?? null)]),
    ...(watched === null ? [] : watchFields(watched)),
    ...present({ ...server }),
    ...args.map((each): Field => ["argument", each]),
    ...Object.entries(env).map(([name, value]): Field => ["variable", `${name}=${value}`]),
    ["end", ""],
  ];
  return fields.map(packed).join("");
}

const UNWALLED: readonly Field[] = Object.entries({
  level: "none",
  network: "true",
  scratch: "",
  harness: PYTHON_DIR,
  data_dir: "",
});

function wallFields({ level, dataDir, user, reads }: WalledHost, reach: Reach): Field[] {
  const { folders, scratch, python, network, unixSockets, memoryBytes } = reach;
  const { environment, storage } = folders;
  const { interpreter, names } = python;
  return [
    ...Object.entries({ level, scratch, harness: PYTHON_DIR, data_dir: dataDir }),
    ...present({ environment, storage, interpreter, user, memory_bytes: memoryBytes }),
    ...present({ unix_sockets: unixSockets || null }),
    ...network,
    ...[...reads, ...reach.reads, ...(names === null ? [] : [names])].map((each): Field => ["read", each]),
    ...reach.writes.map((each): Field => ["write", each]),
  ];
}

/** Remote agents get none of these: their clusters assign GPUs. */
function gpuFields(gpus: SeatGpus | null): Field[] {
  const { all, granted } = gpus ?? { all: [], granted: [] };
  for (const file of all)
    if (!DEVICE_FILE.test(file)) throw new Error(`${JSON.stringify(file)} is no device file of a GPU`);
  return [
    ["gpus", "assigned"],
    ...all.map((each): Field => ["gpu", each]),
    ...granted.map((each): Field => ["granted_gpu", each]),
  ];
}

function watchFields({ memoryBytes, folders, checksStorage }: Watched): Field[] {
  return [
    ...present({ watched_memory: memoryBytes, checks_storage: checksStorage || null }),
    ...folders.map(({ name, maxBytes, path }): Field => ["watched", `${name} ${maxBytes} ${path}`]),
  ];
}

function present(fields: Readonly<Record<string, string | number | true | null | undefined>>): Field[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [[name, String(value)]],
  );
}

/** A zero byte would be the start of another field, of the app's choosing. */
function packed([name, value]: Field): string {
  if (value.includes("\0")) throw new Error("a zero byte cannot be passed to a process");
  // The child that becomes the program would meet it too late to say so.
  if (name !== "input" && Buffer.byteLength(value) >= MAX_STRING_BYTES)
    throw Object.assign(new Error(`${name} is too long`), { code: "E2BIG" });
  return `${name}=${value}\0`;
}
