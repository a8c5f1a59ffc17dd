import type { Readable } from "node:stream";
import type { Interpreter } from "../host/interpreter.ts";
import type { ProgramEnd, Program } from "./programs/run-program.ts";
import type { PythonWish } from "../model/app-config.ts";
import type { Workload } from "./engine.ts";

/** A program that is to run in a seat, in the bundle's folder. What its environment lacks, the place adds. */
export type BuildStep = Pick<Program, "program" | "args" | "env" | "onLine"> & {
  /** Texts that it finds in the folder `aside`. */
  readonly files?: Readonly<Record<string, string>>;
};

/** Where an environment is built. */
export type BuildGround = {
  /** `bundle`, `environment`, `aside`, and `bin` with its Python are there. */
  readonly folder: string;
  readonly python: Interpreter;
  /** Which packages run on that Python. */
  readonly tag: string;
  /** Its image, `REPOSITORY@DIGEST` or a digest alone, or what no other place has; null where places have no images. */
  readonly image: string | null;
};

/** A build cannot go on where it was; for people. */
export class BuildSeatLost extends Error {
  constructor(message: string) {
    super(message);
    this.name = "BuildSeatLost";
  }
}

/** What a build makes. */
export type BuildFolder = "bundle" | "environment";

/** Where the steps of a build are carried out, one after the other. */
export type Builder = {
  /** Rejects with `BuildSeatLost` if it cannot be had. */
  readonly ground: Promise<BuildGround>;
  /** Runs a program to its end. */
  run(step: BuildStep): Promise<ProgramEnd>;
  /** Has a folder sent: an archive that `unpackFolder` reads, unchecked, and behind it the SHA-256 of its bytes. */
  take<Taken>(what: BuildFolder, use: (archive: Readable) => Promise<Taken>): Promise<Taken>;
  /** Has an environment fetched that was built before. */
  bring(blob: string): Promise<void>;
  /** Ends it, with everything in it. */
  close(): void;
};

/** What a build needs. */
export type BuildWish = {
  readonly buildId: string;
  readonly projectId: string;
  readonly names?: NonNullable<Workload["names"]>;
  /** The blob of the app's own files. */
  readonly bundle: string;
  /** The Python that the app asks for; null where any will do. */
  readonly python: PythonWish | null;
  /** The image that the app is to run in; null for the usual one. */
  readonly image: string | null;
  readonly containerRuntime: Workload["containerRuntime"];
  /** What the app itself may use; null where it has no limit. */
  readonly memoryBytes: number | null;
  /** What is built is an image. */
  readonly buildsImage?: true;
};

/** Where environments are built that do not run on this machine. */
export type BuildSeats = {
  /** Begins a seat; whoever opens it closes it. */
  open(wish: BuildWish, onObstacle: (why: string) => void, signal: AbortSignal): Builder;
  /** How images are built there; null where none are. */
  readonly images: ImageBuilds | null;
};

/** How a place builds images. */
export type ImageBuilds = {
  /** Where they go: a host, and a path. */
  readonly registry: string;
  readonly tools: ImageTools;
};

/** What a seat that builds images has, by its paths there. */
export type ImageTools = {
  /** The program that has an image built. */
  readonly script: string;
  readonly buildctl: string;
  /** Where BuildKit listens. */
  readonly address: string;
  /** What opens the registry; null where nothing has to. */
  readonly logins: string | null;
  /** A folder with certificates of authorities to trust besides the usual ones; null for none. */
  readonly certificates: string | null;
};
