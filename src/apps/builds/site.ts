import type { LogStream } from "../../model/log-line.ts";

/** What every step of one build needs. */
export type BuildSite = {
  readonly buildId: string;
  /** The extracted bundle; steps may change it. */
  readonly bundleDir: string;
  readonly dataDir: string;
  /** The service's own Python, which watches over what a build starts. */
  readonly keeperPython: string;
  /** The service's own environment. */
  readonly host: NodeJS.ProcessEnv;
  /** The app asks for uv. */
  readonly wantsUv: boolean;
  /** A line for those who follow the build. */
  readonly say: (text: string, stream?: LogStream) => void;
  readonly signal: AbortSignal;
};
