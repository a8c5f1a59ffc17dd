import type { BuiltImage } from "../../model/app-config.ts";
import type { BuildCommand, CommandKind } from "./commands.ts";
import type { Requirements } from "./requirements.ts";

/** Where an app is built: this machine, a container image, or a seat on another machine. `build.ts` has the order. */
export type BuildTarget = {
  /** Throws a `BuildError` if the deploy asks for a check and a Python file does not parse. */
  checkSyntax(): Promise<void>;
  /** Makes an environment that only this build uses; otherwise its packages may be shared. */
  makeOwn(): Promise<void>;
  /** Runs commands in the bundle's folder, with the packages that are installed by then. */
  runCommands(kind: CommandKind, commands: readonly BuildCommand[]): Promise<void>;
  install(requirements: Requirements): Promise<void>;
  /** Compiles the bundle, which is on this machine afterwards; one that offers functions needs a `main.py`. */
  finish(needsMain: boolean): Promise<void>;
  /** Makes what was built last, and says where it is. */
  keep(): Promise<PreparedBuild>;
};

/** What a version's replicas are started with. */
export type PreparedBuild = {
  /** The folder of its packages; null when it has none. */
  readonly environment: string | null;
  /** The interpreter that runs it; null for the service's own. */
  readonly python: string | null;
  /** The image that was built for it in the cluster; absent for none. */
  readonly built?: BuiltImage;
};
