import { Command } from "commander";
import { ConfigError } from "../config/problems.ts";
import { VERSION } from "../config/release.ts";
import { SETTING_KEYS, envOf, flagOf } from "../config/setting-keys.ts";
import type { ServeFlags } from "./serve.ts";
import type { ListenFlags } from "./webhook.ts";

const FAILURE = 1;
const USAGE = 2;

function withSettings(command: Command): Command {
  command.option("--config <file>", "settings file (TOML)");
  for (const { name, meaning, default: usual } of Object.values(SETTING_KEYS)) {
    const source = usual ? `${envOf(name)}, default ${usual}` : envOf(name);
    command.option(`${flagOf(name)} <value>`, `${meaning} [${source}]`);
  }
  return command;
}

const program = new Command("millrace")
  .description("Deploy a Python function; call it over HTTP.")
  .version(VERSION)
  .showHelpAfterError("(millrace --help lists what there is)")
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : USAGE));

withSettings(program.command("serve"))
  .description("run the service")
  .addHelpText("after", "\nExample:\n  millrace serve --data-dir /var/lib/millrace")
  .action(async (flags: ServeFlags) => (await import("./serve.ts")).serve(flags));

withSettings(program.command("start"))
  .description("run the service with the example apps, and print calls to try")
  .addHelpText("after", "\nExample:\n  millrace start")
  .action(async (flags: ServeFlags) => (await import("./start.ts")).start(flags));

withSettings(program.command("bootstrap"))
  .description("make the default project and the owner's token once; print them")
  .option("--json", "print one JSON document")
  .addHelpText("after", "\nExample:\n  millrace bootstrap --json")
  .action(async (flags: ServeFlags) => (await import("./bootstrap.ts")).bootstrap(flags));

withSettings(program.command("backup"))
  .argument("<file>", "the archive to write")
  .description("save everything into one file; the service may go on meanwhile")
  .option("--json", "print one JSON document")
  .addHelpText("after", "\nExample:\n  millrace backup /var/backups/millrace.tar")
  .action(async (file: string, flags: ServeFlags) => (await import("./backup.ts")).backup(file, flags));

withSettings(program.command("restore"))
  .argument("<file>", "an archive that backup wrote")
  .description("make a data directory of a backup")
  .option("--json", "print one JSON document")
  .addHelpText(
    "after",
    "\nExample:\n  millrace restore /var/backups/millrace.tar --data-dir /var/lib/millrace",
  )
  .action(async (file: string, flags: ServeFlags) => (await import("./restore.ts")).restore(file, flags));

withSettings(program.command("doctor"))
  .description("look at everything the service depends on, and say what to do")
  .option("--json", "print one JSON document")
  .addHelpText("after", "\nExample:\n  millrace doctor")
  .action(async (flags: ServeFlags) => (await import("./doctor.ts")).doctor(flags));

program
  .command("webhook")
  .description("help with receiving webhooks")
  .command("listen")
  .description("receive webhooks on this machine, show each and check its signature")
  .option("--port <number>", "port to listen on; 0 takes any that is free", "4200")
  .option("--status <code>", "status to answer with", "200")
  .option("--delay <duration>", "time to wait before answering", "0s")
  .option("--secret <secret>", "a project's whsec_… secret, or the text sent as X-Webhook-Secret")
  .option("--json", "print one JSON document per line")
  .addHelpText("after", "\nExample:\n  millrace webhook listen --status 500 --delay 3s")
  .action(async (flags: ListenFlags) => (await import("./webhook.ts")).listen(flags));

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`millrace: ${describe(error)}\n`);
  process.exitCode = error instanceof ConfigError ? USAGE : FAILURE;
}

/** One line for what the reader can mend; the stack for what only we can. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") {
    return `${error.message}: something else listens there; choose other ports with --api-port and --base-port`;
  }
  const isExpected = error instanceof ConfigError || !/^(Type|Reference|Range|Syntax)Error$/.test(error.name);
  return isExpected ? error.message : (error.stack ?? error.message);
}
