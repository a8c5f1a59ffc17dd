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
export function badName(name: string): Error {
  return usage(
    `${JSON.stringify(name)} cannot be an app's name: lower-case letters, digits and - inside, at most 63`,
    "give another with --name",
  );
}
