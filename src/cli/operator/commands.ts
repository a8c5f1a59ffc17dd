import { type Command, Option } from "commander";
import type { SettingKey } from "../../config/readers.ts";
import { DROPPED, SETTING_KEYS, envOf, flagOf } from "../../config/setting-keys.ts";
import { usage } from "../failure.ts";
import { type Definitions, examples, JSON_OPTION, type OperatorFlags } from "../options.ts";

const PASSPHRASE_FILE = [
  "--passphrase-file <file>",
  "read the passphrase from a file [MILLRACE_BACKUP_PASSPHRASE]",
] as const;

/** The commands that run on the machine of the service: each takes every setting as an option. */
export const COMMANDS: Definitions = {
  serve: (command) =>
    withSettings(command, "millrace serve --data-dir /var/lib/millrace").action(
      async (flags: OperatorFlags) => (await import("./serve.ts")).serve(flags),
    ),
  start: (command) =>
    withSettings(command, "millrace start").action(async (flags: OperatorFlags) =>
      (await import("./serve.ts")).start(flags),
    ),
  bootstrap: (command) =>
    printing(command, "millrace bootstrap --json").action(async (flags: OperatorFlags) =>
      (await import("./access.ts")).bootstrap(flags),
    ),
  "reset-password": (command) =>
    printing(command, "millrace reset-password ada@example.com")
      .argument("<email>", "the person's e-mail address, or their id if several people share it")
      .action(async (email: string, flags: OperatorFlags) =>
        (await import("./access.ts")).resetPassword(email, flags),
      ),
  "rotate-keys": (command) =>
    printing(command, "millrace rotate-keys").action(async (flags: OperatorFlags) =>
      (await import("./access.ts")).rotateKeys(flags),
    ),
  backup: (command) =>
    printing(
      command,
      "millrace backup /var/backups/millrace.sealed --encrypt",
      "millrace backup /var/backups/millrace.tar",
    )
      .argument("<file>", "the archive to write")
      .option("--encrypt", "encrypt it with a passphrase; you are asked for it on a terminal")
      .option(...PASSPHRASE_FILE)
      .action(async (file: string, flags: OperatorFlags) =>
        (await import("./backup.ts")).backup(file, flags),
      ),
  restore: (command) =>
    printing(command, "millrace restore /var/backups/millrace.tar --data-dir /var/lib/millrace")
      .argument("<file>", "an archive written by backup, encrypted or not")
      .option(...PASSPHRASE_FILE)
      .action(async (file: string, flags: OperatorFlags) =>
        (await import("./restore.ts")).restore(file, flags),
      ),
  storage: (command) =>
    printing(command, "millrace storage").action(async (flags: OperatorFlags) =>
      (await import("./storage.ts")).storage(flags),
    ),
  doctor: (command) =>
    printing(command, "millrace doctor", "millrace doctor --repair", "millrace doctor --escape")
      .option("--repair", "reinstall packages of apps that are missing or were built for another Python")
      .option("--chaos", "kill a replica and a service under load, in a scratch folder; count what was lost")
      .option(
        "--escape",
        "deploy a hostile app into a scratch service, and show what stopped each of its attacks",
      )
      .option("--running", "with --escape: attack the running service instead, without what could disturb it")
      .action(async (flags: OperatorFlags) => {
        if (flags["running"] && !flags["escape"]) throw usage("--running goes with --escape");
        if (flags["escape"]) await (await import("./escape/escape.ts")).escape(flags);
        else if (flags["chaos"]) await (await import("./chaos/chaos.ts")).chaos(flags);
        else await (await import("./doctor/doctor.ts")).doctor(flags);
      }),
};

/** The same with `--json`. */
function printing(command: Command, ...lines: string[]): Command {
  return withSettings(command, ...lines).option(...JSON_OPTION);
}

function withSettings(command: Command, ...lines: string[]): Command {
  command.option("--config <file>", "settings file (TOML)");
  for (const { name, meaning, default: usual } of Object.values<SettingKey<unknown>>(SETTING_KEYS)) {
    const source = usual ? `${envOf(name)}, default ${usual}` : envOf(name);
    command.option(`${flagOf(name)} <value>`, `${meaning} [${source}]`);
  }
  // Accepted here, so that the service can say what to do instead.
  for (const name of Object.keys(DROPPED))
    command.addOption(new Option(`${flagOf(name)} [value]`).hideHelp());
  return examples(command, ...lines);
}
