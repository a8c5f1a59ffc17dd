import { section } from "./row.ts";

/** What keeps the service up, and one project's load off the others. */
export const LIMITS = {
  ...section("issue: No one in, 3: a last net", {
    "net.logged": "An error that nothing caught is logged whole, and the service exits with 70.",
    "net.restarted": "`npm start` and `serve` start a service again that ended with 70.",
    "net.gives-up": "A service that ends with 70 five times within a minute is given up, aloud, with 70.",
    "net.signals": "Signals and exit codes pass the parent in both directions; it never outlives its child.",
    "net.orphan": "A service whose parent was killed ends at once and leaves its data directory.",
  }),
};
