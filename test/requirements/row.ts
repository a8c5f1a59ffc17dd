/** The pieces of work still to come; a row that waits for one carries its name. */
export type Piece =
  | "streaming"
  | "async and webhooks"
  | "management API and identity"
  | "deploy"
  | "command line"
  | "dashboard"
  | "isolation";

/** One promise to the outside: where it is made, and what is promised. */
export type Requirement = {
  readonly source: string;
  readonly behaviour: string;
  /** The piece that will keep this promise; absent once it is kept and tested. */
  readonly later?: Piece;
};

type Planned = { readonly behaviour: string; readonly later: Piece };

/** Marks a promise that a later piece will keep. */
export function later(piece: Piece, behaviour: string): Planned {
  return { behaviour, later: piece };
}

/** The rows that come from one place of one document; each id keeps its literal type. */
export function section<const Id extends string>(
  source: string,
  rows: Readonly<Record<Id, string | Planned>>,
): Record<Id, Requirement> {
  const entries = Object.entries<string | Planned>(rows).map(([id, row]) => [
    id,
    typeof row === "string" ? { source, behaviour: row } : { source, ...row },
  ]);
  return Object.fromEntries(entries) as Record<Id, Requirement>;
}
