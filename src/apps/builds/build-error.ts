/** A build that cannot succeed as it is: its message is the line that its author needs. */
export class BuildError extends Error {
  /** Each problem on its own, where there are several and the message has only the first. */
  readonly problems: readonly string[];

  constructor(message: string, options?: ErrorOptions & { readonly problems?: readonly string[] }) {
    super(message, options);
    this.name = "BuildError";
    this.problems = options?.problems ?? [message];
  }
}

/** Problems that are named before the rest is counted. */
const MAX_NAMED = 20;

/** Several problems at once: each becomes a line of the log, and the message has the first, with advice for all. */
export function severalProblems(
  problems: readonly string[],
  say: (text: string) => void,
  advice: string | null = null,
): BuildError {
  const [first = "", ...others] = problems;
  const lines = problems.slice(0, MAX_NAMED);
  if (problems.length > MAX_NAMED) lines.push(`… and ${problems.length - MAX_NAMED} more`);
  for (const line of lines) say(line);
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
  const message = `${first}${more}${advice === null ? "" : `. ${advice}`}`;
  if (others.length === 0) return new BuildError(message);
  return new BuildError(message, { problems: advice === null ? lines : [...lines, advice] });
}
