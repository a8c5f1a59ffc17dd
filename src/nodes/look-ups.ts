import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { AppPlace } from "../model/node.ts";
import type { Store } from "../store/store.ts";
import type { Asker } from "./elsewhere.ts";

/** Which app is looked for. */
export type Lookup = { readonly projectId: string; readonly name: string };

type LookUpsParts = { readonly store: Pick<Store, "appOwners">; readonly clock: Clock };

/** Whoever shows no token may ask for names without end: so many of them are looked up at a time. */
const MAX_STRANGERS = 8;
/** So long a stranger is told that there is no such app, without a look. */
const ABSENT_MS = 1_000;
const MAX_ABSENT = 10_000;

/** Looks up in the database where apps are, each once at a time, however many ask. */
export class LookUps {
  readonly #parts: LookUpsParts;
  readonly #underWay = new Map<string, Promise<AppPlace | null>>();
  /** Names that a stranger asked for and nobody has, with when that was found out. */
  readonly #absent = new Map<string, number>();
  #strangers = 0;

  constructor(parts: LookUpsParts) {
    this.#parts = parts;
  }

  async find(key: Lookup, asker: Asker): Promise<AppPlace | null> {
    const text = `${key.projectId}/${key.name}`;
    if (asker === "stranger") return await this.#findForStranger(key, text);
    return await this.#find(key, text);
  }

  async #findForStranger(key: Lookup, text: string): Promise<AppPlace | null> {
    const now = this.#parts.clock.monotonic();
    if (now - (this.#absent.get(text) ?? -ABSENT_MS) < ABSENT_MS) return null;
    // A look that is under way costs nothing more: many may call the same public app.
    const looking = this.#underWay.get(text);
    if (looking) return await looking;
    if (this.#strangers >= MAX_STRANGERS)
      throw new AppError("too_many_requests", { headers: { "retry-after": "1" } });
    this.#strangers += 1;
    try {
      const place = await this.#find(key, text);
      if (this.#absent.size >= MAX_ABSENT) this.#absent.clear();
      if (place) this.#absent.delete(text);
      else this.#absent.set(text, now);
      return place;
    } finally {
      this.#strangers -= 1;
    }
  }

  async #find(key: Lookup, text: string): Promise<AppPlace | null> {
    let looking = this.#underWay.get(text);
    if (!looking) {
      looking = this.#parts.store.appOwners.find(key).finally(() => this.#underWay.delete(text));
      this.#underWay.set(text, looking);
    }
    return await looking;
  }
}
