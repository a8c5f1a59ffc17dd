import { PYTHON_DIR } from "../../config/package-files.ts";
import type { AppPython } from "../app-python.ts";
import type { KeptStart } from "../start-kept.ts";
import { startOf } from "./isolated-start.ts";
import type { NetworkFields } from "./network-fields.ts";
import type { Rung } from "./rung.ts";

/** What the app's harness is told in place of an address: it asks the outer keeper for its connections. */
export const DOOR_ADDRESS = "door";

/** The kernel takes no longer argument or variable, with its end. */
const MAX_STRING_BYTES = 128 * 1024;

/** A host whose apps live behind walls. */
export type WalledHost = {
  readonly rung: Rung;
  /** The interpreter that raises them: the host's, and none that an app brings. */
  readonly python: string;
  readonly dataDir: string;
  /** Who the app runs as; null where that is the service's own user. */
  readonly user: number | null;
  /** Further files and folders of the host that every app may read. */
  readonly reads: readonly string[];
};

/** What of the host a program behind walls may reach. */
export type Reach = {
  readonly folders: {
    /** Where it starts. It may change what is there only if that is among `writes`, or for itself alone. */
    readonly bundle: string;
    /** Packages that it reads. */
    readonly environment: string | null;
    /** What it writes and others of its project see. */
    readonly storage: string | null;
  };
  /** A folder of its own, which it may write to until it ends. */
  readonly scratch: string;
  /** The Python that it is or may start: what that needs of the host is shown to it, beyond what the keeper's does. */
  readonly python: Pick<AppPython, "interpreter" | "names">;
  /** Beyond what the host shows to all. */
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** What it asks for. */
  readonly network: NetworkFields;
  /** It may use unix sockets although those of others are in its view. */
  readonly unixSockets: boolean;
};

/** What is to run behind walls, and what of the host it may reach. */
type Walled = Reach & {
  /** The app's interpreter, or another program, and what comes after it. */
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** One line for its stdin; null for a program that is told nothing there. */
  readonly order: string | null;
  /** Where the service listens for it; null for a program that does not call home. */
  readonly home: string | null;
  /** What descriptor 3 gives it; null for nothing. */
  readonly input: string | null;
  /** What files in memory, such as those in `/dev/shm`, may take where it has its own; null for as much as the host has. */
  readonly memoryBytes: number | null;
};

/**
 * How to start the outer keeper: a process outside the walls that raises them around its child and stays. Throws if
 * something of it cannot be handed to a process at all.
 */
export function behindWalls(host: WalledHost, walled: Walled): KeptStart {
  const { rung, python, dataDir, user } = host;
  const { program, args, env, order, folders, scratch, network, unixSockets, home, input, memoryBytes } =
    walled;
  const { interpreter, names } = walled.python;
  const { bundle, environment, storage } = folders;
  const who = user === null ? null : String(user);
  const named = { environment, storage, home, order, input, interpreter, user: who };
  const fields: readonly (readonly [string, string])[] = [
    ...Object.entries({ rung, program, bundle, scratch, harness: PYTHON_DIR, data_dir: dataDir }),
    ...Object.entries(named).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])),
    ...(memoryBytes === null ? [] : [["memory_bytes", String(memoryBytes)] as const]),
    ["unix_sockets", String(unixSockets)],
    ...network,
    ...[...host.reads, ...walled.reads, ...(names === null ? [] : [names])].map(
      (each) => ["read", each] as const,
    ),
    ...walled.writes.map((each) => ["write", each] as const),
    ...args.map((each) => ["argument", each] as const),
    ...Object.entries(env).map(([name, value]) => ["variable", `${name}=${value}`] as const),
  ];
  return {
    python,
    args: startOf("millrace_walls.start"),
    // Where whoever looks for the processes of a data directory finds it. Nothing there is imported.
    cwd: scratch,
    env: {},
    input: { descriptor: 0, text: fields.map(packed).join("") },
  };
}

/** A field as the outer keeper reads it. A zero byte would be the start of another one, of the app's choosing. */
function packed([name, value]: readonly [string, string]): string {
  if (value.includes("\0")) throw new Error("a zero byte cannot be passed to a process");
  // The child that becomes the program would meet it too late to say so.
  if (Buffer.byteLength(value) >= MAX_STRING_BYTES)
    throw Object.assign(new Error(`${name} is too long`), { code: "E2BIG" });
  return `${name}=${value}\0`;
}
