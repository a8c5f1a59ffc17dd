import type { Command, CommanderError } from "commander";
import { CliFailure, EXIT, Interrupted, usage } from "./failure.ts";
import { printable } from "./output/paint.ts";
import { pastable } from "./output/program-name.ts";
import { buildProgram, wantedBy } from "./program.ts";

/** Runs what was typed after `millrace`; resolves with the exit code, and has said why if it is not 0. */
export async function runCommand(args: readonly string[]): Promise<number> {
  // Whoever reads us may have seen enough: `millrace logs | head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? 0 : EXIT.failure);
  });
  const isJson = args.includes("--json");
  try {
    const program = await buildProgram(wantedBy(args));
    stopAtUsage(program, isJson);
    await program.parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return report(error, isJson);
  }
}

/** The parser says what is wrong with the words; the exit code is ours, and a program gets its document. */
function stopAtUsage(command: Command, isJson: boolean): void {
  command.configureOutput({
    outputError: (text, write) => write(text.replace(/^error:/, "millrace:")),
    ...(isJson && { writeErr: () => {} }),
  });
  command.exitOverride((error: CommanderError) => {
    if (error.exitCode === 0) process.exit(0);
    const problem = error.message.replace(/^error: /, "");
    process.exit(isJson ? report(usage(problem), isJson) : EXIT.usage);
  });
  for (const below of command.commands) stopAtUsage(below, isJson);
}

/** Says what went wrong, to a person on stderr or to a program as the one document; returns the exit code. */
function report(error: unknown, isJson: boolean): number {
  if (error instanceof Interrupted) {
    // The terminal has shown ^C, and the shell's prompt would stand beside it.
    if (process.stderr.isTTY) process.stderr.write("\n");
    return error.exitCode;
  }
  const { message, detail, exitCode } = asFailure(error);
  const { details = [], code = exitCode === EXIT.usage ? "usage" : "failed", requestId } = detail;
  const hint = detail.hint === undefined ? undefined : pastable(detail.hint);
  if (isJson) {
    const document = { code, message, details, hint: hint ?? null, request_id: requestId ?? null };
    process.stdout.write(`${JSON.stringify({ error: document })}\n`);
    return exitCode;
  }
  const lines = [`millrace: ${message}`, ...details.map((line) => `  - ${line}`)];
  if (hint !== undefined) lines.push(`  → ${hint}`);
  // Some of it was said by the app that was called.
  process.stderr.write(`${printable(lines.join("\n"))}\n`);
  return exitCode;
}

function asFailure(error: unknown): CliFailure {
  if (error instanceof CliFailure) return error;
  if (!(error instanceof Error)) return new CliFailure(String(error));
  if (error.name === "ConfigError") return new CliFailure(error.message, { code: "config" }, EXIT.usage);
  if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") {
    const remedy = "something else listens there; choose other ports with --api-port and --base-port";
    return new CliFailure(`${error.message}: ${remedy}`);
  }
  // A bug of ours: its location says more than a stack, which MILLRACE_DEBUG shows.
  const isOurs = /^(Type|Reference|Range|Syntax)Error$/.test(error.name);
  if (!isOurs) return new CliFailure(error.message);
  const what = process.env["MILLRACE_DEBUG"] ? error.stack : error.message;
  return new CliFailure(`this is a bug in millrace: ${what}`, {
    code: "internal",
    hint: "set MILLRACE_DEBUG=1 to see the stack, and report it",
  });
}
