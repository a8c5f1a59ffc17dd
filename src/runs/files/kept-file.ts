import { PYTHON_DIR } from "../../config/package-files.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import type { AppPython } from "../../host/app-python.ts";
import type { Program } from "../../engines/programs/run-program.ts";
import type { AppWalls } from "../../host/walls/walls.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import type { Network } from "../../model/app-config.ts";
import type { FileRunRequest } from "./file-run.ts";

/** Makes the rest of the command line, and the data, a start of the file. */
const ONCE = `import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)}); __import__("millrace_worker.once").once.main()`;

/** A file that is to run, and what is there for it. */
export type FileStart = {
  readonly file: FileRunRequest & { readonly environment: string | null };
  /** The JSON for `--data`; null for none. */
  readonly data: string | null;
  readonly python: AppPython;
  /** What it finds in its environment, but for what names folders of this machine. */
  readonly variables: Readonly<Record<string, string>>;
  /** Where the file is. */
  readonly folder: string;
  readonly storage: string;
  /** Its home behind walls; null where it has the service's. */
  readonly scratch: string | null;
  /** Who it runs as; null for the service's own user. */
  readonly user: number | null;
};

/** What a file lives behind, null for nothing, and which sockets it may use. */
export type FileWalls = {
  readonly walls: AppWalls | null;
  readonly sockets: { readonly network: Network; readonly unixSockets: boolean };
};

/** The program that runs a file. */
export function keptFile(
  { file, data, python, variables, folder, storage, scratch, user }: FileStart,
  { walls, sockets: { network, unixSockets } }: FileWalls,
): Omit<Program, "held" | "onLine"> {
  const { environment } = file;
  const env = withFolders(variables, { storage, environment }, python);
  const program = {
    program: python.program,
    args: argumentsOf(file),
    // Not as an argument: every user of the machine may read those.
    input: data ?? "",
    cwd: folder,
  };
  if (walls === null || scratch === null)
    return { ...program, env: appEnvironment(process.env, env), walls: null };
  // The service's own home is out of reach.
  const own = { HOME: scratch, TMPDIR: scratch, ...networkVariables(network, walls.network) };
  const reach = {
    folders: { bundle: folder, environment, storage },
    scratch,
    python,
    reads: [],
    writes: [folder],
    network: networkFields(network, walls.network),
    unixSockets,
  };
  const host = { ...walls, user };
  return { ...program, env: appEnvironment(process.env, { ...own, ...env }), walls: { host, reach } };
}

function argumentsOf({ fileName, functionName }: FileRunRequest): string[] {
  return [
    "-c",
    ONCE,
    // Programs would take it for an option.
    fileName.startsWith("-") ? `./${fileName}` : fileName,
    // Always there: the code that clients append to a file takes the first argument for it.
    functionName ?? "",
  ];
}
