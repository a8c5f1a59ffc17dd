import { Option } from "commander";
import type { Command } from "commander";
import { DROPPED, SETTING_KEYS, envOf, flagOf } from "../../config/setting-keys.ts";
import type { ServeFlags } from "../serve.ts";
import { usage } from "../failure.ts";
import { examples } from "../options.ts";

/** Adds every setting of the service as an option. */
function withSettings(command: Command): Command {
  command.option("--config <file>", "settings file (TOML)");
  for (const { name, meaning, default: usual } of Object.values(SETTING_KEYS)) {
    const source = usual ? `${envOf(name)}, default ${usual}` : envOf(name);
    command.option(`${flagOf(name)} <value>`, `${meaning} [${source}]`);
  }
  // Accepted here, so that the service can say what to do instead.
  for (const name of Object.keys(DROPPED))
    command.addOption(new Option(`${flagOf(name)} [value]`).hideHelp());
  return command;
}

const PASSPHRASE_FILE = [
  "--passphrase-file <file>",
  "read the passphrase from a file [MILLRACE_BACKUP_PASSPHRASE]",
] as const;
const JSON_OPTION = ["--json", "print one JSON document"] as const;

/** `millrace serve` */
export function defineServe(command: Command): void {
  examples(withSettings(command), "millrace serve --data-dir /var/lib/millrace").action(
    async (flags: ServeFlags) => (await import("../serve.ts")).serve(flags),
  );
}

/** `millrace start` */
export function defineStart(command: Command): void {
  examples(withSettings(command), "millrace start").action(async (flags: ServeFlags) =>
    (await import("../start.ts")).start(flags),
  );
}

/** `millrace bootstrap` */
export function defineBootstrap(command: Command): void {
  examples(withSettings(command).option(...JSON_OPTION), "millrace bootstrap --json").action(
    async (flags: ServeFlags) => (await import("../bootstrap.ts")).bootstrap(flags),
  );
}

/** `millrace reset-password` */
export function defineResetPassword(command: Command): void {
  withSettings(command)
    .argument("<email>", "the person's e-mail address, or their id if several people share it")
    .option(...JSON_OPTION);
  examples(command, "millrace reset-password ada@example.com").action(
    async (email: string, flags: ServeFlags) =>
      (await import("../reset-password.ts")).resetPassword(email, flags),
  );
}

/** `millrace rotate-keys` */
export function defineRotateKeys(command: Command): void {
  examples(withSettings(command).option(...JSON_OPTION), "millrace rotate-keys").action(
    async (flags: ServeFlags) => (await import("../rotate-keys.ts")).rotateKeys(flags),
  );
}

/** `millrace backup` */
export function defineBackup(command: Command): void {
  withSettings(command)
    .argument("<file>", "the archive to write")
    .option("--encrypt", "encrypt it with a passphrase; you are asked for it on a terminal")
    .option(...PASSPHRASE_FILE)
    .option(...JSON_OPTION);
  examples(
    command,
    "millrace backup /var/backups/millrace.sealed --encrypt",
    "millrace backup /var/backups/millrace.tar",
  ).action(async (file: string, flags: ServeFlags) => (await import("../backup.ts")).backup(file, flags));
}

/** `millrace restore` */
export function defineRestore(command: Command): void {
  withSettings(command)
    .argument("<file>", "an archive written by backup, encrypted or not")
    .option(...PASSPHRASE_FILE)
    .option(...JSON_OPTION);
  examples(command, "millrace restore /var/backups/millrace.tar --data-dir /var/lib/millrace").action(
    async (file: string, flags: ServeFlags) => (await import("../restore.ts")).restore(file, flags),
  );
}

/** `millrace storage` */
export function defineStorage(command: Command): void {
  examples(withSettings(command).option(...JSON_OPTION), "millrace storage").action(
    async (flags: ServeFlags) => (await import("../storage.ts")).storage(flags),
  );
}

/** `millrace doctor` */
export function defineDoctor(command: Command): void {
  withSettings(command)
    .option("--repair", "reinstall packages of apps that are missing or were built for another Python")
    .option("--chaos", "kill a replica and a service under load, in a scratch folder; count what was lost")
    .option(
      "--escape",
      "deploy a hostile app into a scratch service, and show what stopped each of its attacks",
    )
    .option("--running", "with --escape: attack the running service instead, without what could disturb it")
    .option(...JSON_OPTION);
  examples(command, "millrace doctor", "millrace doctor --repair", "millrace doctor --escape").action(
    async (flags: ServeFlags) => {
      if (flags["running"] && !flags["escape"]) throw usage("--running goes with --escape");
      if (flags["escape"]) return await (await import("../escape/escape.ts")).escape(flags);
      if (flags["chaos"]) await (await import("../chaos/chaos.ts")).chaos(flags);
      else await (await import("../doctor.ts")).doctor(flags);
    },
  );
}
