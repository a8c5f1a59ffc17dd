import { PYTHON_DIR } from "../../config/package-files.ts";
import type { AppFolders } from "../app-environment.ts";
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
};

/** What is to run behind walls, and what of the host it may reach. */
type Walled = {
  /** The app's interpreter and what comes after it. */
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** One line for its stdin. */
  readonly order: string;
  readonly folders: AppFolders & { readonly bundle: string };
  /** A folder of its own, which it may write to until it ends. */
  readonly scratch: string;
  /** What it asks for. */
  readonly network: NetworkFields;
  /** Where the service listens for it. */
  readonly home: string;
};

/**
 * How to start the outer keeper: a process outside the walls that raises them around its child and stays. Throws if
 * something of it cannot be handed to a process at all.
 */
export function behindWalls(host: WalledHost, walled: Walled): KeptStart {
  const { rung, python, dataDir, user } = host;
  const { program, args, env, order, folders, scratch, network, home } = walled;
  const { bundle, environment, storage } = folders;
  const fields: readonly (readonly [string, string])[] = [
    ...Object.entries({ rung, home, program, order, bundle, storage, scratch }),
    ...(environment === null ? [] : [["environment", environment] as const]),
    ...network,
    ...(user === null ? [] : [["user", String(user)] as const]),
    ["harness", PYTHON_DIR],
    ["data_dir", dataDir],
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
