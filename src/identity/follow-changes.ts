import type { Changes } from "../nodes/changes.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Tokens } from "./tokens.ts";

/** Has what other nodes do to accounts, people and keys count here, within a second. */
export function followIdentity(
  changes: Pick<Changes, "on" | "onReset">,
  { tokens, keys }: { readonly tokens: Tokens; readonly keys: KeyRing },
): void {
  const forget = (subjects: readonly string[]): void => {
    for (const subject of subjects) tokens.forgetSubject(subject);
  };
  changes.on("account", forget);
  changes.on("person", forget);
  const readAgain = async (): Promise<void> => {
    await keys.refresh();
    // Of a key that is retired now, too.
    tokens.reconsiderAll();
  };
  changes.on("keys", readAgain);
  changes.onReset(async () => {
    tokens.reconsiderAll();
    await readAgain();
  });
}
