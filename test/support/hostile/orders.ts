import type { HostileTickets } from "./cases.ts";

/** What the engine tells the process that plays hostile ones. */
export type ToPeer =
  | {
      readonly start: { readonly id: number; readonly address: string; readonly tickets: HostileTickets };
    }
  | { readonly kill: number };

/** What it tells back: the end of one, and how many plans were played, and how many of them were hostile. */
export type FromPeer = { readonly exited: number } | { readonly cases: number; readonly plans: number };
