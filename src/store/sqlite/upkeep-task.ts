/** Work on a whole database; `isAlone` says that no service has it open. */
export type UpkeepTask = { readonly path: string; readonly isAlone: boolean } & (
  | { readonly kind: "copy"; readonly to: string }
  | { readonly kind: "inspect" }
);

/** The first of the database was read. */
export const BEGUN = "begun";

/** From the thread that does it: that it has begun, then what came of it. */
export type UpkeepMessage = { readonly result: unknown };
