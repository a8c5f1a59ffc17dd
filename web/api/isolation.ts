import { queryOptions } from "@tanstack/react-query";
import { ISOLATION } from "../../src/shapes/installation.ts";
import { ask } from "./http.ts";

export type { EscapeReport, IsolationRule, Level } from "../../src/shapes/installation.ts";

/** What keeps apps from the rest of the machine. For the operator. */
export const isolationQuery = queryOptions({
  queryKey: ["isolation"],
  queryFn: ({ signal }) => ask(ISOLATION, "/v2/isolation", { signal }),
});
