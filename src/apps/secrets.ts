import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";

export type SecretMap = Readonly<Record<string, string>>;

/** Where a map belongs: to an app, or with number 0 to its whole project. */
export type SecretPlace = { readonly projectId: string; readonly appNumber: number };

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

  async read(place: SecretPlace): Promise<SecretMap> {
    const sealed = await this.#store.secrets.find(place);
    if (!sealed) return {};
    return JSON.parse(this.#seal.open(sealed, sealPlace(place)).toString()) as SecretMap;
  }

  /** Puts another map in place of the one there is. */
  async replace(place: SecretPlace, map: SecretMap): Promise<void> {
    const sealedMap = this.#seal.close(Buffer.from(JSON.stringify(map)), sealPlace(place));
    await this.#store.secrets.replace({ ...place, sealedMap, updatedAt: this.#clock.now() });
  }
}

function sealPlace({ projectId, appNumber }: SecretPlace): string {
  return `secrets/${projectId}/${appNumber}`;
}
