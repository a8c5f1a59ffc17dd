import { ConfigError } from "../../config/problems.ts";
import type { BuildStatus } from "../../model/build.ts";
import { AppError } from "../../model/errors.ts";
import { BuildError } from "../builds/build-error.ts";
import { BundleError } from "../bundles/problems.ts";

export type FailureStatus = Extract<
  BuildStatus,
  "build_failure" | "init_failure" | "init_timeout" | "cancelled"
>;

/** Longer lines are somebody's data, not a reason. */
const MAX_MESSAGE_CHARS = 1_000;

/** How a deploy ended that did not succeed; the message is the line a person needs. */
export class DeployFailure extends Error {
  readonly status: FailureStatus;
  /** Everything that is to be told, where that is more than the message. */
  readonly lines: readonly string[];

  constructor(status: FailureStatus, message: string, lines: readonly string[] = [message]) {
    super(message.slice(0, MAX_MESSAGE_CHARS));
    this.name = "DeployFailure";
    this.status = status;
    this.lines = lines;
  }
}

const DISK_FULL: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

/** What an error means for the deploy that it ended; null for a fault of ours. */
export function failureOf(error: unknown): DeployFailure | null {
  if (error instanceof DeployFailure) return error;
  if (error instanceof BuildError) return new DeployFailure("build_failure", error.message);
  if (error instanceof AppError) return new DeployFailure("build_failure", error.message);
  if (error instanceof ConfigError || error instanceof BundleError) {
    const [first = error.message, ...others] = error.problems;
    const message = others.length === 0 ? first : `${first} (and ${others.length} more)`;
    return new DeployFailure("build_failure", message, error.problems);
  }
  const { code } = error as NodeJS.ErrnoException;
  return DISK_FULL.has(code) ? new DeployFailure("build_failure", "the service's disk is full") : null;
}
