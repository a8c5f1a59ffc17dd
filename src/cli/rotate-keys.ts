import { readSettings } from "../config/settings.ts";
import { askOperator } from "./ask-operator.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace rotate-keys`: tokens are signed with a new key from now on. */
export async function rotateKeys(flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { keys } = await askOperator(settings, "rotateKeys");
  const [signing, before] = keys;
  if (flags["json"]) process.stdout.write(`${JSON.stringify({ signing, before })}\n`);
  else {
    process.stdout.write(
      `Tokens are now signed with the key ${signing}, including the owner's.\n` +
        `Tokens signed with the key ${before} stay valid until the next rotation: replace them before then.\n`,
    );
  }
}
