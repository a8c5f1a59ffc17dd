import { AppError } from "../model/errors.ts";
import type { Store } from "../store/store.ts";
import type { Principal } from "./principal.ts";

const FIRST_PERSON = "first_person";

/** Who runs the installation, beside whoever is at its machine: the first person, and the owner's token. */
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

  /** Whether the account is one that `millrace bootstrap` prints the token of. */
  async isOwnerAccount(accountId: string): Promise<boolean> {
    return (await this.#store.meta.get(ownerKey(accountId))) !== null;
  }
}

/** Notes that an account is the owner's. */
export async function noteOwnerAccount(store: Pick<Store, "meta">, accountId: string): Promise<void> {
  await store.meta.setIfAbsent({ key: ownerKey(accountId), value: "1" });
}

function ownerKey(accountId: string): string {
  return `owner_account/${accountId}`;
}
