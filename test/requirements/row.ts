/** One promise to the outside: the document that makes it, and what is promised. */
export type Requirement = {
  /** `seed` or `contract` with the section, or a document of this repository, with a heading of it: `docs/api.md: Streams`. */
  readonly source: string;
  readonly behaviour: string;
};

/** The rows that come from one place of one document; each id keeps its literal type. */
export function section<const Id extends string>(
  source: string,
  rows: Readonly<Record<Id, string>>,
): Record<Id, Requirement> {
  const entries = Object.entries<string>(rows).map(([id, behaviour]) => [id, { source, behaviour }]);
  return Object.fromEntries(entries) as Record<Id, Requirement>;
}
