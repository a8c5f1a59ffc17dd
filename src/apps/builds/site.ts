import type { AppPython } from "../../host/app-python.ts";
import type { Containers } from "../../host/containers/containers.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import type { GpuSource } from "../../host/gpus/source.ts";
import type { AppLimits } from "../../host/limits/limits.ts";
import type { StorageFolders } from "../../host/storage/folders.ts";
import type { AppWalls } from "../../host/walls/walls.ts";
import type { BlobStore } from "../../blobs/blob-store.ts";
import type { Builder, BuildSeats } from "../../engines/build-seats.ts";
import type { EnvironmentBlob } from "../../store/apps/versions.ts";
import type { RegistryAuth } from "../deploys/deploy-request.ts";
import type { AppConfig } from "../../model/app-config.ts";
import type { GpuKind } from "../../model/gpu.ts";
import type { LogStream } from "../../model/log-line.ts";

/** The environment variables of a process. */
export type Env = Readonly<Record<string, string>>;

/** What builds need of this machine. */
export type BuildHost = {
  readonly dataDir: string;
  /** The service's own. */
  readonly python: Interpreter;
  /** What steps live behind; null for nothing. */
  readonly walls: AppWalls | null;
  /** What steps are held to; null for nothing. */
  readonly limits: AppLimits | null;
  /** What apps that ask for GPUs are compared with; absent if nothing is known of them. */
  readonly gpus?: Pick<GpuSource, "current"> & {
    readonly ofOtherNodes?: () => readonly (readonly GpuKind[])[];
  };
  /** Who a project's steps run as. */
  readonly storage: Pick<StorageFolders, "userOf">;
  /** What builds images, and where apps begin that name none; null where apps have none. */
  readonly images: ImageHost | null;
  /** Where apps run, and so are built, if that is not this machine. */
  readonly remote?: RemoteBuilds | null;
};

/** Machines that build what they will run. */
export type RemoteBuilds = {
  readonly seats: BuildSeats;
  readonly blobs: BlobStore;
  /** The blob of an environment that a version has, by the environment's id; null for none. */
  readonly known: (environment: string) => Promise<EnvironmentBlob | null>;
  /** How large a folder of a seat can be; a seat that sends more is lying. */
  readonly maxFolderBytes: number;
};

export type ImageHost = {
  readonly containers: Containers;
  /** `{python}` in it stands for a version. */
  readonly baseImage: string;
};

/** Drops all other members, which may have names that mean something else in a build. */
export function buildHost(host: BuildHost): BuildHost {
  const { dataDir, python, walls, limits, gpus, storage, images, remote = null } = host;
  return { dataDir, python, walls, limits, ...(gpus && { gpus }), storage, images, remote };
}

/** A bundle that is to be made ready for its first replica. */
export type BuildInput = BuildHost & {
  readonly buildId: string;
  /** Whose packages they are: no other project gets what this build makes or fetches. */
  readonly projectId: string;
  /** The extracted bundle; steps may change it. */
  readonly bundleDir: string;
  readonly config: AppConfig;
  readonly say: (text: string, stream?: LogStream) => void;
  readonly signal: AbortSignal;
  /** Logins for the registries of its images, besides those of the service. */
  readonly registryAuth?: RegistryAuth | null;
  /** Where its packages go, if a version names the place already; else where their key says. */
  readonly environmentDir?: string;
  /** Refuse a bundle with a Python file that does not parse; otherwise only `main.py` has to. */
  readonly checksSyntax?: boolean;
  readonly host?: NodeJS.ProcessEnv;
};

/** What every step of one build needs. */
export type BuildSite = BuildInput & {
  readonly host: NodeJS.ProcessEnv;
  /** A folder beside the bundle for what steps read and may not change. */
  readonly asideDir: string;
  /** What the app runs on, without packages; the service's own until that is known. */
  readonly appPython: AppPython;
  /** Who steps run as, and what they make belongs to; null for the service's own user. */
  readonly user: number | null;
  /** The home of its steps where they live behind walls; null where they have the service's. */
  readonly scratch: string | null;
  /** Where its steps run, if that is not this machine. */
  readonly seat?: Builder;
  /** How the app's image gets system packages; absent where no image can be built for it. */
  readonly packagesBy?: "apt" | "dockerfile";
};

/** A build that cannot succeed as it is: its message is the line that its author needs. */
export class BuildError extends Error {
  /** Each problem on its own; the message has only the first. */
  readonly problems: readonly string[];

  constructor(message: string, options?: ErrorOptions & { readonly problems?: readonly string[] }) {
    super(message, options);
    this.name = "BuildError";
    this.problems = options?.problems ?? [message];
  }
}

/** Problems that are named before the rest is counted. */
const MAX_NAMED = 20;

/** Several problems at once: each becomes a line of the log; the message has the first, and the advice. */
export function severalProblems(
  problems: readonly string[],
  { say }: Pick<BuildInput, "say">,
  advice: string | null = null,
): BuildError {
  const [first = "", ...others] = problems;
  const lines = problems.slice(0, MAX_NAMED);
  if (problems.length > MAX_NAMED) lines.push(`… and ${problems.length - MAX_NAMED} more`);
  for (const line of lines) say(line, "stderr");
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
  const message = `${first}${more}${advice === null ? "" : `. ${advice}`}`;
  if (others.length === 0) return new BuildError(message);
  return new BuildError(message, { problems: advice === null ? lines : [...lines, advice] });
}

export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
