import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { SecretMap } from "../model/app.ts";
import { scopeOf, type SecretScope } from "../store/accounts/sealed-secrets.ts";
import type { Store } from "../store/store.ts";
import { isDeepStrictEqual } from "node:util";
import { Turns } from "../kit/concurrency.ts";

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

  async replace(scope: SecretScope, map: SecretMap): Promise<void> {
    const sealedMap = this.#seal.close(Buffer.from(JSON.stringify(map)), sealContext(scope));
    await this.#store.secrets.replace({ ...scope, sealedMap, updatedAt: this.#clock.now() });
  }
}

function sealContext({ projectId, appNumber }: SecretScope): string {
  return `secrets/${projectId}/${appNumber}`;
}

/** The secrets of apps as their replicas get them, at hand without asking the store. */
export class AppSecrets {
  readonly #secrets: Pick<Secrets, "read">;
  readonly #maps = new Map<string, SecretMap>();
  /** Of two changes the later one counts, whichever answer of the store comes first. */
  readonly #turns = new Turns<string>();

  constructor(secrets: Pick<Secrets, "read">) {
    this.#secrets = secrets;
  }

  /** Reads the secrets of an app and of its project, if they are not at hand yet. */
  async load(scope: SecretScope): Promise<void> {
    for (const one of [projectOf(scope), scope])
      if (!this.#maps.has(keyOf(one)))
        await this.#turns.take(keyOf(one), async () => {
          this.#maps.set(keyOf(one), await this.#secrets.read(one));
        });
  }

  /** Reads a scope's secrets again, if they are at hand; says whether they have changed. */
  async refresh(scope: SecretScope): Promise<boolean> {
    const key = keyOf(scope);
    return await this.#turns.take(key, async () => {
      const before = this.#maps.get(key);
      if (!before) return false;
      const now = await this.#secrets.read(scope);
      this.#maps.set(key, now);
      return !isDeepStrictEqual(before, now);
    });
  }

  /** The scopes that are at hand: of apps that are served here, or were. */
  scopes(): SecretScope[] {
    return Array.from(this.#maps.keys(), scopeOf);
  }

  /** An app's secrets: its own over its project's. */
  of(scope: SecretScope): SecretMap {
    return { ...this.#maps.get(keyOf(projectOf(scope))), ...this.#maps.get(keyOf(scope)) };
  }

  forget(scope: SecretScope): void {
    this.#maps.delete(keyOf(scope));
  }
}

function projectOf({ projectId }: SecretScope): SecretScope {
  return { projectId, appNumber: WHOLE_PROJECT };
}

function keyOf({ projectId, appNumber }: SecretScope): string {
  return `${projectId}/${appNumber}`;
}
