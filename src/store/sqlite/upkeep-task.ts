/** Work on a whole database; `isAlone` says that no service has it open. */
export type UpkeepTask = { readonly path: string; readonly isAlone: boolean } & (
  | { readonly kind: "copy"; readonly to: string }
  | { readonly kind: "inspect" }
);
