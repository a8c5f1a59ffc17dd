import { readFileSync } from "node:fs";
import { CliFailure, usage } from "../failure.ts";
import { askSecret, canAsk } from "../terminal.ts";

/** Where a script gives the passphrase of a backup. */
export const PASSPHRASE_ENV = "MILLRACE_BACKUP_PASSPHRASE";

const MIN_CHARS = 12;
const HINT = `set ${PASSPHRASE_ENV}, or name a file with --passphrase-file`;

/** A passphrase for a new archive: typed twice, or given by a script. Short ones are refused. */
export async function choosePassphrase(file: string | undefined): Promise<string> {
  const given = givenPassphrase(file);
  if (given !== null) return longEnough(given);
  if (!canAsk()) throw usage("--encrypt needs a passphrase, and there is no terminal to ask for it", HINT);
  const typed = longEnough(await askSecret("Passphrase for the backup: "));
  if ((await askSecret("Repeat the passphrase: ")) !== typed) throw new CliFailure("the two do not match");
  return typed;
}

/** The passphrase of an archive that is there. */
export async function askPassphrase(file: string | undefined): Promise<string> {
  const given = givenPassphrase(file);
  if (given !== null) return given;
  if (!canAsk())
    throw usage("the backup is encrypted, and there is no terminal to ask for the passphrase", HINT);
  return await askSecret("Passphrase of the backup: ");
}

/** By a script; null when it gives none. */
function givenPassphrase(file: string | undefined): string | null {
  if (file !== undefined) return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  return process.env[PASSPHRASE_ENV] || null;
}

function longEnough(passphrase: string): string {
  if (Array.from(passphrase).length >= MIN_CHARS) return passphrase;
  throw usage(
    `a passphrase needs at least ${MIN_CHARS} characters: anyone with the file can try as many as they like`,
  );
}
