import type { Program, ProgramEnd } from "../../engines/programs/run-program.ts";
import { AppError, type ErrorCode } from "../../model/errors.ts";
import { endRun, fileRunName, makeRun, NOT_BEGUN } from "../../model/run.ts";
import type { Run, RunCaller, RunFate } from "../../model/run.ts";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { appEnvironment, withFolders } from "../../host/app-environment.ts";
import type { AppPython } from "../../host/app-python.ts";
import type { AppWalls } from "../../host/walls/walls.ts";
import { networkFields, networkVariables } from "../../host/walls/network.ts";
import type { Network } from "../../model/app-config.ts";

/** Such a run belongs to no version. */
const NO_VERSION = "00000000-0000-0000-0000-000000000000";
const MAX_MESSAGE_CHARS = 1_000;

export type FileRunRequest = {
  /** Relative to the uploaded folder. */
  readonly fileName: string;
  readonly functionName: string | null;
  readonly ip: string;
  readonly caller: RunCaller | null;
};

export function startedRun(
  { fileName, functionName, ip, caller }: FileRunRequest,
  { id, appNumber, createdAt }: Pick<Run, "id" | "appNumber" | "createdAt">,
  startedAt: number,
): Run {
  const target = { appNumber, versionId: NO_VERSION };
  return makeRun(
    { id, target, functionName: fileRunName(fileName, functionName), ip, caller, webhook: null },
    {
      ...NOT_BEGUN,
      // It is not run again if the service dies.
      isAsync: false,
      state: "running",
      createdAt,
      startedAt,
      replicaId: id,
      replicaStartedAt: startedAt,
      queueMs: Math.max(0, startedAt - createdAt),
    },
  );
}

/** How a file's run ended: by itself, or from outside. */
export type FileRunEnd = ProgramEnd | "timed_out" | "cancelled" | "interrupted";

export function endedRun(run: Run, end: FileRunEnd, now: number): Run {
  return { ...endRun(run, fateOf(end), now), runMs: Math.max(0, now - (run.startedAt ?? now)) };
}

/** The end of a run whose service died. */
export function abandonedRun(run: Run, now: number): Run {
  return endRun(run, failure("interrupted"), now);
}

function fateOf(end: FileRunEnd): RunFate {
  if (typeof end === "string") return failure(end);
  const { code, detail, lastWords } = end;
  if (code === 0) return { state: "success", statusCode: 200, errorCode: null, errorMessage: null };
  // The keeper reports a signal with such codes.
  if (code > 128) return failure("app_crashed", detail);
  return failure("app_error", lastWords === "" ? detail : lastWords);
}

function failure(code: ErrorCode, message?: string): RunFate {
  const error = new AppError(code, message === undefined ? {} : { message });
  return {
    state: "failure",
    statusCode: error.status,
    errorCode: code,
    errorMessage: error.message.slice(0, MAX_MESSAGE_CHARS),
  };
}

/** Starts the file with the rest of the command line and the data. */
const ONCE = `import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)}); __import__("millrace_worker.once").once.main()`;

type FileStart = {
  readonly file: FileRunRequest & { readonly environment: string | null };
  /** The JSON for `--data`; null for none. */
  readonly data: string | null;
  readonly python: AppPython;
  /** Its environment variables, without those for folders of this machine. */
  readonly variables: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly storage: string;
  /** Its home behind walls; null if it has the service's. */
  readonly scratch: string | null;
  /** The user it runs as; null for the service's own. */
  readonly user: number | null;
  readonly walls: AppWalls | null;
  readonly sockets: { readonly network: Network; readonly unixSockets: boolean };
};

export function keptFile(start: FileStart): Omit<Program, "held" | "onLine"> {
  const { file, data, python, variables, folder, storage, scratch, user, walls, sockets } = start;
  const { environment, fileName, functionName } = file;
  const env = withFolders(variables, { storage, environment }, python);
  // With "./", programs do not take the file for an option.
  const script = fileName.startsWith("-") ? `./${fileName}` : fileName;
  const program = {
    program: python.program,
    // Always with a function name: the code that clients append to a file reads it from the first argument.
    args: ["-c", ONCE, script, functionName ?? ""],
    // Not as an argument: every user of the machine may read those.
    input: data ?? "",
    cwd: folder,
  };
  if (walls === null || scratch === null)
    return { ...program, env: appEnvironment(process.env, env), walls: null };
  const { network, unixSockets } = sockets;
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
