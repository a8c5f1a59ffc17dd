import type { LogStream } from "./log-line.ts";

export const BUILD_STATUSES = [
  "pending",
  "building",
  "initializing",
  "success",
  "build_failure",
  "init_failure",
  "init_timeout",
  "cancelled",
] as const;
export type BuildStatus = (typeof BUILD_STATUSES)[number];

/** Every legal move: waiting for its upload, being built, being checked by a first replica, ended once. */
const NEXT: Record<BuildStatus, readonly BuildStatus[]> = {
  pending: ["building", "build_failure", "cancelled"],
  building: ["initializing", "build_failure", "cancelled"],
  initializing: ["success", "build_failure", "init_failure", "init_timeout", "cancelled"],
  success: [],
  build_failure: [],
  init_failure: [],
  init_timeout: [],
  cancelled: [],
};

export function canBuildMove(from: BuildStatus, to: BuildStatus): boolean {
  return NEXT[from].includes(to);
}

/** The statuses before that one. */
export function buildStatusesBefore(to: BuildStatus): BuildStatus[] {
  return BUILD_STATUSES.filter((from) => canBuildMove(from, to));
}

export function isFinalBuild(status: BuildStatus): boolean {
  return NEXT[status].length === 0;
}

/** A deploy. Its id is also that of its version. */
export type Build = {
  readonly id: string;
  readonly appNumber: number;
  readonly status: BuildStatus;
  /** Why it failed. */
  readonly message: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
};

export const BUILD_STAGES = ["upload", "extract", "build", "check", "switch"] as const;
export type BuildStage = (typeof BUILD_STAGES)[number];

export type BuildLine = {
  /** From 1, without a gap. */
  readonly number: number;
  readonly createdAt: number;
  readonly stream: LogStream;
  readonly stage: BuildStage;
  readonly text: string;
};
