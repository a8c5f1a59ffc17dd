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
  ...section("docs/decisions/0017-builds.md", {
    "builds.unpackable":
      "On Postgres a build fails that leaves a pipe, a socket, a link out or a name that is no text, and names it.",
  }),
  ...section("docs/cluster.md: What happens when", {
    "frozen.answers":
      "A node that was frozen and goes on reads the answers that came meanwhile: no call gets 503 for want of storage.",
  }),
  ...section("docs/operations.md: When the clock is set", {
    "ids.clock":
      "The id of a run is at most 10 s ahead of the clock, and ids sort by birth unless it is set back by more.",
    "clock.steps":
      "When the clock is set, nothing new is removed, keys count for 24 h, and lists keep their order.",
    "clock.steps.kept":
      "When the clock is set by an hour, nothing is removed before its time, and all of it later.",
  }),
};
