import { Batcher } from "../kit/batcher.ts";
import type { AppPlace } from "../model/node.ts";
import type { Store } from "../store/store.ts";

/** What an app is called by. */
export type NamedApp = { readonly projectId: string; readonly name: string };

const NAMES_AT_ONCE = 100;

/** The name of an app, and its project's, as one text. */
export function textOf({ projectId, name }: NamedApp): string {
  return `${projectId}/${name}`;
}

/**
 * Where apps are, by what the database says. Whoever asks has not shown a token yet, and may make names up: however many
 * ask, it is one statement at a time.
 */
export class Places {
  readonly #batches: Batcher<NamedApp, ReadonlyMap<string, AppPlace>>;

  constructor(store: Pick<Store, "appOwners">) {
    this.#batches = new Batcher(
      async (apps): Promise<ReadonlyMap<string, AppPlace>> => {
        const wanted = new Map(apps.map((app) => [textOf(app), app]));
        const places = await store.appOwners.find([...wanted.values()]);
        return new Map(places.map((place) => [textOf(place), place]));
      },
      { maxItems: NAMES_AT_ONCE },
    );
  }

  /** Null when there is no such app. */
  async find(app: NamedApp): Promise<AppPlace | null> {
    return (await this.#batches.add(app)).get(textOf(app)) ?? null;
  }
}
