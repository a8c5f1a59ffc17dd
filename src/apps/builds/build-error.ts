/** A build that cannot succeed as it is: its message is the line that its author needs. */
export class BuildError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BuildError";
  }
}

/** Several problems at once: each becomes a line of the log, and the message has the first of them. */
export function severalProblems(problems: readonly string[], say: (text: string) => void): BuildError {
  for (const problem of problems) say(problem);
  const more = problems.length - 1;
  return new BuildError(`${problems[0] ?? ""}${more > 0 ? ` (and ${more} more)` : ""}`);
}
