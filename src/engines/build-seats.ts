import type { Readable } from "node:stream";
import type { Interpreter } from "../host/interpreter.ts";
import type { ProgramEnd, Program } from "./programs/run-program.ts";
import type { Workload } from "./engine.ts";

/** A program to run in a seat, in the bundle's folder. The place completes its environment. */
export type BuildStep = Pick<Program, "program" | "args" | "env" | "onLine"> & {
  /** Text files that it finds in the folder `aside`. */
  readonly files?: Readonly<Record<string, string>>;
};

/** Where an environment is built. */
export type BuildGround = {
  /** Holds `bundle`, `environment`, `aside`, and `bin` with its Python. */
  readonly folder: string;
  readonly python: Interpreter;
  /** The tag of packages that run on that Python. */
  readonly tag: string;
  /** Its image as `REPOSITORY@DIGEST` or digest, or a unique text; null where places have no images. */
  readonly image: string | null;
};

export class BuildSeatLost extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BuildSeatLost";
  }
}

export type BuildFolder = "bundle" | "environment";

/** Runs the steps of a build, one after the other. */
export type Builder = {
  /** Rejects with `BuildSeatLost` if the seat cannot start. */
  readonly ground: Promise<BuildGround>;
  run(step: BuildStep): Promise<ProgramEnd>;
  /** Fetches a folder: an unchecked archive for `unpackFolder`, followed by the SHA-256 of its bytes. */
  take<Taken>(what: BuildFolder, use: (archive: Readable) => Promise<Taken>): Promise<Taken>;
  bring(blob: string): Promise<void>;
  close(): void;
};

export type BuildWish = Pick<
  Workload,
  "projectId" | "names" | "python" | "containerRuntime" | "buildsImage"
> & {
  readonly buildId: string;
  /** The blob of the app's own files. */
  readonly bundle: string;
  /** The image that the app runs in; null for the default. */
  readonly image: string | null;
  /** The app's own limit; null if it has none. */
  readonly memoryBytes: number | null;
};

/** Builds environments for remote machines. */
export type BuildSeats = {
  /** Starts a seat. The caller closes it. */
  open(wish: BuildWish, onObstacle: (why: string) => void, signal: AbortSignal): Builder;
  /** How images are built there; null if they are not. */
  readonly images: ImageBuilds | null;
};

export type ImageBuilds = {
  /** The repository they are pushed to: host and path. */
  readonly registry: string;
  readonly tools: ImageTools;
};

/** Paths in a seat that builds images. */
export type ImageTools = {
  /** The program that asks BuildKit for an image. */
  readonly script: string;
  readonly buildctl: string;
  /** Where BuildKit listens. */
  readonly address: string;
  /** Credentials for the registry; null if it needs none. */
  readonly logins: string | null;
  /** A folder with additional certificates to trust. */
  readonly certificates: string | null;
};
