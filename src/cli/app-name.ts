import { usage } from "./failure.ts";

/** The nearest thing to a folder's name that may be an app's. */
export function asAppName(folder: string): string {
  const plain = folder
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, 63);
  return plain.replaceAll(/^-+|-+$/g, "") || "app";
}

/** What to say of a name that no app can have. */
export function badName(name: string, option = "--name"): Error {
  return usage(
    `${JSON.stringify(name)} is not a valid app name: use up to 63 lower-case letters, digits and inner hyphens`,
    `choose another with ${option}`,
  );
}
