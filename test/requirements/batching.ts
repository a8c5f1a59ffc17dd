import { section } from "./row.ts";

/** Calls that share an execution. */
export const BATCHING = {
  ...section("docs/batching.md: When a batch leaves", {
    "batching.idle": "A call that finds an idle replica does not wait for others.",
    "batching.alone": "A caller who calls one call after the other never waits for others.",
    "batching.untuned":
      "Without settings, batches serve at least 95 % of the calls that the best fixed size and wait serve.",
    "batching.dispatch":
      "Each call ends once, in a batch of its own function and key, and none is left over.",
  }),
  ...section("docs/batching.md: Batches", {
    "batching.own": "Each call of a batch gets its own answer.",
  }),
  ...section("docs/batching.md: Errors", {
    "batching.split": "If the function raises, halves of the batch run until the calls at fault are alone.",
    "batching.crash": "After a crash the calls of a batch run alone, and only a crash alone ends a call.",
  }),
  ...section("docs/batching.md: Steppers", {
    "stepper.streams": "A stepper streams each of its calls by itself, in sync, async and streaming mode.",
    "stepper.signature": "The signature of a stepper's function is that of `add`, without `self` and `id`.",
    "stepper.beside": "A stepper takes calls up to its capacity, beside the other functions of its replica.",
    "stepper.failures":
      "An exception of `add` or instead of a chunk fails one call, one of `step` all of them, and a new stepper goes on.",
    "stepper.leave": "A call whose caller left ends at once, and is removed.",
    "stepper.lag":
      "A lagging reader delays no other call; beyond `max_chunk` bytes that wait for it, its call ends.",
    "stepper.misfit": "A class that cannot be a stepper fails the deploy with a clear message.",
    "stepper.drain": "When a version is replaced, its steppers finish the calls they have.",
  }),
  ...section("docs/batching.md: The helper module", {
    "helper.run": "`millrace.run` has the id, attempt and deadline of the run that the code belongs to.",
    "helper.signs": "`import millrace` gives SKIP, END and the client inside a run.",
    "helper.order": "The bundle's own `millrace` comes before the service's, and an installed one after it.",
    "helper.shadowed": "A deploy warns if the bundle has a `millrace` of its own.",
    "helper.wheel":
      "`npm run build:python` makes the wheel, the same bytes each time; pip installs it without a network.",
  }),
};
