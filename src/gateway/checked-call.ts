import type { LiveApp } from "../apps/catalog.ts";
import type { RememberedToken } from "../identity/tokens.ts";
import type { Exchange } from "./exchange.ts";
import type { RunQuery } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import type { CallRoute } from "./route.ts";

/** A call that has passed every check but those of its arguments. */
export type CheckedCall = {
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: CallRoute;
  readonly live: LiveApp;
  readonly query: RunQuery;
  /** Null on a public app, where nobody showed one. */
  readonly token: RememberedToken | null;
};
