import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { SecretMap } from "../model/app.ts";
import type { SecretScope } from "../store/accounts/sealed-secrets.ts";
import type { Store } from "../store/store.ts";

/** The number that stands for the whole project. */
export const WHOLE_PROJECT = 0;

/** Secrets of projects and apps; at rest they are sealed, each map with a key of its own. */
export class Secrets {
  readonly #store: Store;
  readonly #seal: Seal;
  readonly #clock: Clock;

  constructor(store: Store, seal: Seal, clock: Clock) {
    this.#store = store;
    this.#seal = seal;
    this.#clock = clock;
  }

  async read(scope: SecretScope): Promise<SecretMap> {
    const sealed = await this.#store.secrets.find(scope);
    if (!sealed) return {};
    return JSON.parse(this.#seal.open(sealed, sealContext(scope)).toString()) as SecretMap;
  }

  /** Puts another map in place of the one there is. */
  async replace(scope: SecretScope, map: SecretMap): Promise<void> {
    const sealedMap = this.#seal.close(Buffer.from(JSON.stringify(map)), sealContext(scope));
    await this.#store.secrets.replace({ ...scope, sealedMap, updatedAt: this.#clock.now() });
  }
}

function sealContext({ projectId, appNumber }: SecretScope): string {
  return `secrets/${projectId}/${appNumber}`;
}
