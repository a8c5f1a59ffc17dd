import { parseArgs } from "node:util";
import { Command, type CommanderError } from "commander";
import { VERSION } from "../config/package-files.ts";
import { CliFailure, EXIT, Interrupted, usage } from "./failure.ts";
import { type Definitions, examples, JSON_OPTION } from "./options.ts";
import { Output, printable } from "./output.ts";
import { pastable } from "./program-name.ts";

/** Every command. */
export const ALL = "*";

/** Loads the file that defines a command, only when it is needed: the program starts quickly. */
type Load = () => Promise<{ readonly COMMANDS: Definitions }> | { readonly COMMANDS: Definitions };

const operator: Load = () => import("./operator/commands.ts");
const bench: Load = () => import("./client/bench.ts");
const hardware: Load = () => import("./client/hardware.ts");
const nodes: Load = () => import("./client/nodes.ts");
const webhook: Load = () => import("./client/webhook.ts");

/** Every command, in the order of the help. */
const GROUPS: Readonly<Record<string, readonly (readonly [name: string, summary: string, load: Load])[]>> = {
  Apps: [
    ["init", "create an app in a folder", () => import("./client/init.ts")],
    ["dev", "serve a folder locally, and reload it on every save", () => import("./operator/dev.ts")],
    ["deploy", "deploy a folder as an app", () => import("./client/deploy.ts")],
    ["call", "call an app: a function, or a path of a server", () => import("./client/call.ts")],
    ["run", "run a Python file once, in the surroundings of an app", () => import("./client/run.ts")],
    ["apps", "list, show, scale, roll back and delete apps", () => import("./client/apps.ts")],
    ["restart", "replace an app's replicas without a failed call", () => import("./client/apps.ts")],
    ["builds", "list and cancel builds, and read their logs", () => import("./client/builds.ts")],
  ],
  "Runs and data": [
    ["queue", "show, pause, resume or drain an app's queue of async runs", () => import("./client/queue.ts")],
    ["map", "call a function with each line of a file", () => import("./client/batches/map.ts")],
    ["batches", "list, show, cancel and retry batches of calls", () => import("./client/batches/batches.ts")],
    ["schedules", "list, create, pause, run and delete schedules", () => import("./client/schedules.ts")],
    ["runs", "list, show, follow, cancel, retry and delete runs", () => import("./client/runs.ts")],
    ["logs", "show what an app printed", () => import("./client/logs.ts")],
    [
      "usage",
      "show what calls and replicas used, by day, app, token or tag",
      () => import("./client/usage.ts"),
    ],
    ["containers", "list the replicas of an app", () => import("./client/apps.ts")],
    ["secrets", "manage encrypted environment variables of apps", () => import("./client/secrets.ts")],
    ["files", "manage files in the project's persistent storage", () => import("./client/files.ts")],
    ["webhook", "receive webhooks here, list deliveries and send them again", webhook],
  ],
  "The service itself": [
    ["start", "run the service with the example apps, and print calls to try", operator],
    ["serve", "run the service", operator],
    ["bootstrap", "create the default project and the owner's token, and print them", operator],
    ["reset-password", "print a password-reset link", operator],
    ["rotate-keys", "sign tokens with a new key; earlier tokens stay valid", operator],
    ["backup", "save everything to one file, even while the service runs", operator],
    ["restore", "restore a data directory from a backup", operator],
    ["storage", "show how much disk each project uses, and the limits", operator],
    ["nodes", "list the services of an installation, and take one out of use", nodes],
    ["hardware", "show what apps can run on, and which app has which GPU", hardware],
    ["doctor", "check everything the service depends on, and say what to do", operator],
    ["bench", "measure calls per second and latency of the running service", bench],
  ],
  "Who and where": [
    ["login", "sign in to a service", () => import("./client/login.ts")],
    ["logout", "sign out of a service", () => import("./client/login.ts")],
    ["whoami", "show the service, the project and the account in use", () => import("./client/login.ts")],
    ["projects", "list, create and choose projects", () => import("./client/projects.ts")],
    ["members", "manage the members of the project and its invitations", () => import("./client/members.ts")],
    ["service-accounts", "manage tokens for programs", () => import("./client/service-accounts.ts")],
  ],
  More: [
    ["completion", "print a completion script for your shell", () => import("./completion.ts")],
    ["version", "print the version", () => ({ COMMANDS: { version: defineVersion } })],
  ],
};

/** The command line's tree with one command filled in, or all of them at `ALL`; the others have their name and summary. */
export async function buildProgram(wanted: string | null): Promise<Command> {
  const program = new Command("millrace")
    .description("Deploy Python functions and servers; call them over HTTP.")
    .version(VERSION)
    .commandsGroup("More:")
    .showHelpAfterError("(millrace --help lists all commands)")
    .addHelpText(
      "after",
      "\nExample:\n  millrace call hello name=Ada\n\nRun millrace COMMAND --help for more.",
    );
  for (const [group, rows] of Object.entries(GROUPS)) {
    for (const [name, summary, load] of rows) {
      const command = program.command(name).description(summary).helpGroup(`${group}:`);
      command.showHelpAfterError(`(see millrace ${name} --help)`);
      if (wanted === ALL || wanted === name) (await load()).COMMANDS[name]?.(command);
    }
  }
  return program;
}

function defineVersion(command: Command): void {
  command.option(...JSON_OPTION);
  examples(command, "millrace version").action((flags: { json?: boolean }) => {
    const document = { version: VERSION, node: process.versions.node };
    new Output(flags).show(document, () => `${VERSION}\n`);
  });
}

/** The command to fill in for these arguments: none for `--help` alone, all if the whole tree is shown. */
function wantedBy(args: readonly string[]): string | null {
  const words = args.filter((word) => !word.startsWith("-"));
  const wanted = words[0] === "help" ? words[1] : words[0];
  return wanted === "completion" ? ALL : (wanted ?? null);
}

/** Runs the arguments of `millrace`; resolves with the exit code, after reporting an error. */
export async function runCommand(args: readonly string[]): Promise<number> {
  // A reader may stop early: `millrace logs | head`.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? 0 : EXIT.failure);
  });
  try {
    const program = await buildProgram(wantedBy(args));
    stopAtUsage(program, args);
    await program.parseAsync(args, { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return report(error, args);
  }
}

/** The parser reports wrong arguments; the exit code is ours, and with --json there is a document. */
function stopAtUsage(command: Command, args: readonly string[]): void {
  const isJson = args.includes("--json");
  command.configureOutput({
    outputError: (text, write) => write(text.replace(/^error:/, "millrace:")),
    ...(isJson && { writeErr: () => {} }),
  });
  command.exitOverride((error: CommanderError) => {
    if (error.exitCode === 0) process.exit(0);
    const problem = error.message.replace(/^error: /, "");
    process.exit(isJson ? report(usage(problem), args) : EXIT.usage);
  });
  for (const below of command.commands) stopAtUsage(below, args);
}

const SITE = {
  url: { type: "string" },
  project: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** Reports an error, as text on stderr or as the one document; returns the exit code. */
function report(error: unknown, args: readonly string[]): number {
  if (error instanceof Interrupted) {
    // The terminal has shown ^C: the shell's prompt starts a new line.
    if (process.stderr.isTTY) process.stderr.write("\n");
    return error.exitCode;
  }
  const { message, detail, exitCode } = asFailure(error);
  const { details = [], code = exitCode === EXIT.usage ? "usage" : "failed", requestId } = detail;
  const { url, project, "data-dir": dataDir } = parseArgs({ args, strict: false, options: SITE }).values;
  const hint = detail.hint === undefined ? undefined : pastable(detail.hint, { url, project, dataDir });
  if (args.includes("--json")) {
    const document = { code, message, details, hint: hint ?? null, request_id: requestId ?? null };
    process.stdout.write(`${JSON.stringify({ error: document })}\n`);
    return exitCode;
  }
  const lines = [`millrace: ${message}`, ...details.map((line) => `  - ${line}`)];
  if (hint !== undefined) lines.push(`  → ${hint}`);
  // Parts may come from the app that was called.
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
