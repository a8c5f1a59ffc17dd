import { section } from "./row.ts";

/** What happens when the storage below the service is broken or taken away. */
export const STORAGE = {
  ...section("docs/operations.md: When storage breaks", {
    "storage.damaged.start":
      "A damaged SQLite file is found before calls are taken: /readyz and async calls get 503 that says how to restore.",
    "storage.damaged.found":
      "Damage that SQLite reports later has the same effect, and does not pass for a fault that goes by.",
    "storage.damaged.every-page":
      "Whichever page of the file that is in use was flipped, the check finds it.",
    "storage.checks":
      "A file of up to 256 MB is checked before calls are taken, a larger one a minute later; then daily, when idle.",
    "storage.lost":
      "A data directory that was removed, replaced or unmounted takes no run: no 202 is given for what is not in it.",
  }),
};
