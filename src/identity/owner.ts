import path from "node:path";
import type { Clock } from "../kit/clock.ts";
import { readFile, rename, writeFile } from "../kit/files.ts";
import { randomName } from "../kit/ids.ts";
import type { Seal } from "../kit/seal.ts";
import { AppError } from "../model/errors.ts";
import type { Store } from "../store/store.ts";
import type { Principal } from "./principal.ts";
import type { Tokens } from "./tokens.ts";

const FIRST_PERSON = "first_person";

/** The operators of the installation: the first person, and the owner's token. */
export class Operators {
  readonly #store: Pick<Store, "meta">;

  constructor(store: Pick<Store, "meta">) {
    this.#store = store;
  }

  async has(principal: Principal): Promise<boolean> {
    if (principal.projectId !== null) return await this.isOwnerAccount(principal.accountId);
    return (await this.#store.meta.get(FIRST_PERSON)) === principal.personId;
  }

  /** Throws `forbidden`. */
  async require(principal: Principal): Promise<void> {
    if (await this.has(principal)) return;
    const message = "Only the operator can do this: the first account, or the owner's token.";
    throw new AppError("forbidden", { message });
  }

  /** Whether `millrace bootstrap` prints the token of the account. */
  async isOwnerAccount(accountId: string): Promise<boolean> {
    return (await this.#store.meta.get(ownerKey(accountId))) !== null;
  }
}

export async function noteOwnerAccount(store: Pick<Store, "meta">, accountId: string): Promise<void> {
  await store.meta.setIfAbsent({ key: ownerKey(accountId), value: "1" });
}

function ownerKey(accountId: string): string {
  return `owner_account/${accountId}`;
}

/** The default project and the token of its owner. */
export type Owner = { readonly projectId: string; readonly token: string };

export type OwnerParts = {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly seal: Seal;
  readonly dataDir: string;
  readonly clock: Clock;
};

const TOKEN_FILE = "owner-token";
/** Services with one database share the token there, sealed: in a pod, each start has a new data directory. */
const TOKEN_KEY = "owner_token";
const YEARS_10_MS = 10 * 365 * 86_400_000;

/** Makes the default project and its owner's token at the first call; later calls return the same. */
export async function ensureOwner(parts: OwnerParts): Promise<Owner> {
  const { store, tokens, clock, dataDir } = parts;
  const now = clock.now();
  const proposed = `p-${randomName(8)}`;
  const projectId = await store.meta.setIfAbsent({ key: "default_project", value: proposed });
  await store.projects.insert({ id: projectId, name: "default", createdAt: now });
  for (const find of [keptToken, sharedToken]) {
    const token = await find(parts);
    const accountId = token && (await accountOf(tokens, token, projectId));
    if (!token || !accountId) continue;
    await noteOwnerAccount(store, accountId);
    if (find === sharedToken) await keepToken(dataDir, token);
    else await shareToken(parts, token, (entry) => store.meta.setIfAbsent(entry));
    return { projectId, token };
  }
  const { token, accountId } = await tokens.issue({
    projectId,
    name: "owner",
    description: "Created at the first start; kept in the data directory.",
    role: "admin",
    expiresAt: now + YEARS_10_MS,
  });
  await noteOwnerAccount(store, accountId);
  await keepToken(dataDir, token);
  await shareToken(parts, token, (entry) => store.meta.set(entry));
  return { projectId, token };
}

/** Makes a new owner's token with the current signing key; the previous one is valid as long as its key is. */
export async function renewOwner(parts: OwnerParts): Promise<Owner> {
  const { store, tokens, clock, dataDir } = parts;
  const { projectId, token: before } = await ensureOwner(parts);
  const { principal } = await tokens.verify(before);
  const lifetime = { expiresAt: clock.now() + YEARS_10_MS, overlapMs: YEARS_10_MS };
  const renewed =
    principal.projectId === null ? null : await tokens.rotate(projectId, principal.accountId, lifetime);
  if (!renewed) throw new Error("the owner's token was revoked meanwhile");
  await keepToken(dataDir, renewed.token);
  await shareToken(parts, renewed.token, (entry) => store.meta.set(entry));
  return { projectId, token: renewed.token };
}

/** Null if no other service has shared it. */
async function sharedToken({ store, seal }: OwnerParts): Promise<string | null> {
  const sealed = store.kind === "postgres" ? await store.meta.get(TOKEN_KEY) : null;
  return sealed && seal.open(Buffer.from(sealed, "base64"), TOKEN_KEY).toString("utf8");
}

async function shareToken(
  { store, seal }: OwnerParts,
  token: string,
  put: (entry: { key: string; value: string }) => Promise<unknown>,
): Promise<void> {
  if (store.kind !== "postgres") return;
  await put({ key: TOKEN_KEY, value: seal.close(Buffer.from(token), TOKEN_KEY).toString("base64") });
}

/** Atomic: a crash leaves the old file or the new one. */
async function keepToken(dataDir: string, token: string): Promise<void> {
  const file = path.join(dataDir, TOKEN_FILE);
  await writeFile(`${file}.new`, `${token}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

async function keptToken({ dataDir }: OwnerParts): Promise<string | null> {
  try {
    return (await readFile(path.join(dataDir, TOKEN_FILE), "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** The token's account; null if it is invalid or of another project. */
async function accountOf(tokens: Tokens, token: string, projectId: string): Promise<string | null> {
  try {
    const { principal } = await tokens.verify(token);
    return principal.projectId === projectId ? principal.accountId : null;
  } catch {
    return null; // Revoked, expired, or of another database: a new one takes its place.
  }
}
