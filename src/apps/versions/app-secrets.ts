import { WHOLE_PROJECT } from "../secrets.ts";
import type { SecretMap, SecretPlace, Secrets } from "../secrets.ts";
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
  async load(place: SecretPlace): Promise<void> {
    for (const one of [projectOf(place), place]) if (!this.#maps.has(keyOf(one))) await this.refresh(one);
  }

  /** Reads those of an app or of a whole project again. */
  async refresh(place: SecretPlace): Promise<void> {
    const key = keyOf(place);
    await this.#turns.take(key, async () => this.#maps.set(key, await this.#secrets.read(place)));
  }

  /** What an app gets: its own over its project's. */
  of(place: SecretPlace): SecretMap {
    return { ...this.#maps.get(keyOf(projectOf(place))), ...this.#maps.get(keyOf(place)) };
  }

  forget(place: SecretPlace): void {
    this.#maps.delete(keyOf(place));
  }
}

function projectOf({ projectId }: SecretPlace): SecretPlace {
  return { projectId, appNumber: WHOLE_PROJECT };
}

function keyOf({ projectId, appNumber }: SecretPlace): string {
  return `${projectId}/${appNumber}`;
}
