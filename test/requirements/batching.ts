import { section } from "./row.ts";

/** Calls that share an execution. */
export const BATCHING = {
  ...section("docs/batching.md: A batched function", {
    "batching.lists":
      "A batched function gets each parameter as a list, in order of arrival, and returns one.",
    "batching.schema": "The signature of a batched function is that of one call.",
    "batching.table": "A deploy fails if a table for batches does not fit the app's functions.",
    "batching.everywhere":
      "Batches, steppers and the helper module work in containers, pods, Ray actors and other remote seats as on one machine.",
    "batching.log": "A line that is printed during a batch is of the first of its calls.",
  }),
  ...section("docs/batching.md: Sizes and keys", {
    "batching.key": "Calls share a batch only if they have the same value of `key`.",
    "batching.size": "With `size`, `max_size` bounds the sum; a larger call runs alone.",
    "batching.key-memory": "A key takes no memory after its last call.",
  }),
  ...section("docs/batching.md: When a batch leaves", {
    "batching.max-wait": "A call waits for others no longer than `max_wait` once a replica is free.",
    "batching.target":
      "With `target_latency`, 95 of 100 calls are answered within it while replicas keep up.",
    "batching.slots": "A batch counts as one for `replica_concurrency` and the autoscaler.",
    "batching.bytes": "The calls of a batch have at most 256 MiB of arguments together.",
    "batching.idle": "A call that finds an idle replica does not wait for others.",
    "batching.alone": "A caller who calls one call after the other never waits for others.",
    "batching.untuned":
      "Without settings, batches serve at least 95 % of the calls that the best fixed size and wait serve.",
    "batching.dispatch":
      "Each call ends once, in a batch of its own function and key, and none is left over.",
  }),
  ...section("docs/batching.md: Errors", {
    "batching.misfit": "A call whose arguments do not fit ends alone.",
    "batching.item-error": "An item that is an exception, or cannot be sent, fails only its own call.",
    "batching.split": "After the function has raised, halves run until the calls at fault are alone.",
    "batching.on-error-fail": 'With `on_error = "fail"`, an exception fails all calls of the batch.',
    "batching.wrong-length":
      "A result of the wrong length fails all calls, with a message that gives both lengths.",
    "batching.cancel":
      "A call that is cancelled or takes too long ends alone; the code stops when none is left.",
    "batching.cancel-split": "A call that was cancelled is not run again.",
    "batching.own-answer":
      "Each call gets its own answer, whatever raises, is cancelled, or ends with its process beside it.",
    "batching.crash": "After a crash the calls of a batch run alone, and only a crash alone ends a call.",
  }),
  ...section("docs/batching.md: Streams", {
    "batching.stream": "A generator yields a value for each call, or a sign for nothing or the end.",
    "batching.stream-error": "An item that fails ends only its own stream.",
    "batching.stream-split":
      "A generator that raises before its first yield is split; later, its open calls fail.",
    "batching.stream-cancel":
      "Each stream is cancelled by itself; the generator is closed when none is left.",
    "batching.slow-reader":
      "A slow reader delays no other stream: its chunks are kept up to max_chunk, then its call ends.",
    "batching.backpressure": "A generator waits when none of its readers has room.",
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
    "stepper.hang": "A stepper that gives a call no turn for as long as it may take ends with its replica.",
    "stepper.misfit": "A class that cannot be a stepper fails the deploy with a clear message.",
    "stepper.crash": "When its process dies, each call that a stepper has ends, or uses up an attempt.",
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
