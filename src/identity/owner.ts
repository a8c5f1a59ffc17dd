import { readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "../kit/clock.ts";
import { randomName } from "../kit/ids.ts";
import type { Store } from "../store/store.ts";
import type { Tokens } from "./tokens.ts";

/** The default project and the token of its owner. */
export type Owner = { readonly projectId: string; readonly token: string };

const TOKEN_FILE = "owner-token";
const YEARS_10_MS = 10 * 365 * 86_400_000;

/** Makes the default project and its owner's token once; later calls find both again. */
export async function ensureOwner(
  store: Store,
  tokens: Tokens,
  dataDir: string,
  clock: Clock,
): Promise<Owner> {
  const now = clock.now();
  const proposed = `p-${randomName(8)}`;
  const projectId = await store.meta.setIfAbsent({ key: "default_project", value: proposed });
  await store.projects.insert({ id: projectId, name: "default", createdAt: now });
  const file = path.join(dataDir, TOKEN_FILE);
  const kept = await readToken(file);
  if (kept && (await isGood(tokens, kept, projectId))) return { projectId, token: kept };
  const { token } = await tokens.issue({
    projectId,
    name: "owner",
    description: "Made at the first start; kept in the data directory.",
    role: "admin",
    expiresAt: now + YEARS_10_MS,
  });
  // Written aside first: a crash in between leaves the old file or the new one, never half of it.
  await writeFile(`${file}.new`, `${token}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
  return { projectId, token };
}

async function readToken(file: string): Promise<string | null> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

async function isGood(tokens: Tokens, token: string, projectId: string): Promise<boolean> {
  try {
    return (await tokens.verify(token)).principal.projectId === projectId;
  } catch {
    return false; // Revoked, expired, or of another database: a new one takes its place.
  }
}
