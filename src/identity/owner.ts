import path from "node:path";
import { readFile, rename, writeFile } from "../kit/files.ts";
import type { Clock } from "../kit/clock.ts";
import { randomName } from "../kit/ids.ts";
import type { Store } from "../store/store.ts";
import { noteOwnerAccount } from "./operators.ts";
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
  const keptBy = kept && (await accountOf(tokens, kept, projectId));
  if (kept && keptBy) {
    await noteOwnerAccount(store, keptBy);
    return { projectId, token: kept };
  }
  const { token, accountId } = await tokens.issue({
    projectId,
    name: "owner",
    description: "Created at the first start; kept in the data directory.",
    role: "admin",
    expiresAt: now + YEARS_10_MS,
  });
  await noteOwnerAccount(store, accountId);
  await keepToken(file, token);
  return { projectId, token };
}

/** A new token for the owner, by the key that signs now; the one before goes on as long as its key does. */
export async function renewOwner(
  store: Store,
  tokens: Tokens,
  dataDir: string,
  clock: Clock,
): Promise<Owner> {
  const { projectId, token: before } = await ensureOwner(store, tokens, dataDir, clock);
  const { principal } = await tokens.verify(before);
  const lifetime = { expiresAt: clock.now() + YEARS_10_MS, overlapMs: YEARS_10_MS };
  const renewed =
    principal.projectId === null ? null : await tokens.rotate(projectId, principal.accountId, lifetime);
  if (!renewed) throw new Error("the owner's token was revoked meanwhile");
  await keepToken(path.join(dataDir, TOKEN_FILE), renewed.token);
  return { projectId, token: renewed.token };
}

/** Written aside first: a crash in between leaves the old file or the new one, never half of it. */
async function keepToken(file: string, token: string): Promise<void> {
  await writeFile(`${file}.new`, `${token}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

async function readToken(file: string): Promise<string | null> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Whose token it is; null for one that is not good, or not of the project. */
async function accountOf(tokens: Tokens, token: string, projectId: string): Promise<string | null> {
  try {
    const { principal } = await tokens.verify(token);
    return principal.projectId === projectId ? principal.accountId : null;
  } catch {
    return null; // Revoked, expired, or of another database: a new one takes its place.
  }
}
