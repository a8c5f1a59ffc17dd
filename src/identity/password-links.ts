import type { Person } from "../store/accounts/people.ts";
import type { Store } from "../store/store.ts";
import type { Links } from "./links.ts";
import { normal } from "./people.ts";

/** At most this many people with one address are listed; nobody reads more. */
const MAX_LISTED = 20;

/** Somebody who may be meant by an address. */
export type Candidate = Pick<Person, "id" | "email" | "provenAt" | "createdAt"> & {
  /** The projects they are in, by id. */
  readonly projectIds: readonly string[];
};

/** Whom the operator means: an address, or the id of one person where several have that. */
export type Meant = { readonly email: string } | { readonly personId: string };

/** A link for the one who is meant, null where that is nobody or several; and all of those. */
export type MadeLink = { readonly link: string | null; readonly people: readonly Candidate[] };

/** Makes links for setting a new password; only the operator can. */
export class PasswordLinks {
  readonly #store: Store;
  readonly #links: Links;

  constructor(store: Store, links: Links) {
    this.#store = store;
    this.#links = links;
  }

  async make(meant: Meant): Promise<MadeLink> {
    const found = await this.#find(meant);
    const [only, ...others] = found;
    const people = await Promise.all(found.map((person) => this.#describe(person)));
    return { link: only && others.length === 0 ? this.#links.password(only, "operator") : null, people };
  }

  async #find(meant: Meant): Promise<Person[]> {
    const { people } = this.#store;
    if ("email" in meant) return await people.listByEmail({ email: normal(meant.email), limit: MAX_LISTED });
    const person = await people.find(meant.personId);
    return person ? [person] : [];
  }

  async #describe({ id, email, provenAt, createdAt }: Person): Promise<Candidate> {
    const projects = await this.#store.memberships.projectsOf(id);
    return { id, email, provenAt, createdAt, projectIds: projects.map((project) => project.id) };
  }
}
