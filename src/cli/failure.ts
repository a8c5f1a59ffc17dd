/** How a command ends, by its exit code. `docs/cli.md` lists the same. */
export const EXIT = { failure: 1, usage: 2, fault: 70, interrupted: 130, terminated: 143 } as const;

export type FailureDetail = {
  /** The command that helps, or what to do. */
  readonly hint?: string;
  readonly details?: readonly string[];
  readonly code?: string;
  readonly requestId?: string;
};

/** What went wrong, said for the person who typed the command. */
export class CliFailure extends Error {
  readonly detail: FailureDetail;
  readonly exitCode: number;

  constructor(message: string, detail: FailureDetail = {}, exitCode: number = EXIT.failure) {
    super(message);
    this.name = "CliFailure";
    this.detail = detail;
    this.exitCode = exitCode;
  }
}

/** A command that was typed wrongly: nothing was sent or changed. */
export function usage(message: string, hint?: string): CliFailure {
  return new CliFailure(message, hint === undefined ? {} : { hint }, EXIT.usage);
}

/** Ctrl-C, or a signal that means the same; what was begun has been cancelled. */
export class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: "SIGINT" | "SIGTERM") {
    super("interrupted");
    this.name = "Interrupted";
    this.exitCode = signal === "SIGINT" ? EXIT.interrupted : EXIT.terminated;
  }
}

/** Runs work until Ctrl-C aborts its signal, so that it can cancel what it began; a second Ctrl-C ends the process. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const onSignal = (name: "SIGINT" | "SIGTERM"): void => {
    const interrupted = new Interrupted(name);
    if (controller.signal.aborted) process.exit(interrupted.exitCode);
    controller.abort(interrupted);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  try {
    return await work(controller.signal);
  } catch (error) {
    // The reason, whatever error the abort caused.
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}
