import { isDeepStrictEqual } from "node:util";
import { type Secrets, WHOLE_PROJECT } from "../secrets.ts";
import { scopeOf, type SecretScope } from "../../store/accounts/sealed-secrets.ts";
import type { SecretMap } from "../../model/app.ts";
import { Turns } from "./turns.ts";

/** The secrets of apps as their replicas get them, at hand without asking the store. */
export class AppSecrets {
  readonly #secrets: Pick<Secrets, "read">;
  readonly #maps = new Map<string, SecretMap>();
  /** Of two changes the later one counts, whichever answer of the store comes first. */
  readonly #turns = new Turns<string>();

  constructor(secrets: Pick<Secrets, "read">) {
    this.#secrets = secrets;
  }

  /** Reads those of an app, and those of its project, if they are not at hand yet. */
  async load(scope: SecretScope): Promise<void> {
    for (const one of [projectOf(scope), scope])
      if (!this.#maps.has(keyOf(one)))
        await this.#turns.take(keyOf(one), async () => {
          this.#maps.set(keyOf(one), await this.#secrets.read(one));
        });
  }

  /** Reads those of an app or of a whole project again, if they are at hand; says whether they are others now. */
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

  /** Those that are at hand: of apps that are served here, or were. */
  scopes(): SecretScope[] {
    return Array.from(this.#maps.keys(), scopeOf);
  }

  /** What an app gets: its own over its project's. */
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
