import { section } from "./row.ts";

/** Async runs that wait, and that are tried again. */
export const QUEUES = {
  ...section("docs/queues.md: Attempts", {
    "retry.on": "An async run is tried again after what `retry.on` names: a crash, a timeout, exceptions.",
    "retry.delays":
      "Attempts wait for `initial_delay`, and longer each time, up to `max_delay`, with jitter.",
    "retry.after": "An exception with `retry_after` sets the wait before the next attempt.",
    "retry.no-retry": "`millrace.NoRetry` ends a run without a further attempt.",
    "retry.attempts": "The record of a run has each of its attempts, with times and error.",
    "retry.durable": "A run that waits for its next attempt outlives its service.",
    "retry.cancel": "A run that waits for its next attempt can be cancelled.",
    "retry.deleted": "A run that waits for its next attempt ends with its app.",
    "retry.webhook": "The webhook of a run that is tried again is called once, at its end.",
    "retry.async": "Only async runs are tried again.",
    "retry.config": "`[retry]` is checked, and comes before `scaling.max_attempts`.",
  }),
  ...section("docs/queues.md: What a call may ask", {
    "terms.names": "An async call may ask for a priority, a delay, a ttl, a timeout, attempts and tags.",
    "terms.bounds": "Each of them has bounds, and an error that names them.",
    "terms.headers": "`X-Fal-Queue-Priority`, `X-Fal-Request-Timeout` and `Cancel-After` ask for the same.",
    "terms.servers": "For server apps the names begin with `millrace_`; the server's own arrive unchanged.",
    "terms.priority": "Waiting runs begin in the order of their times less their head starts.",
    "terms.aging": "A waiting run passes every later one in the end, whatever its priority.",
    "terms.delay": "A delayed run begins when its delay is over.",
    "terms.ttl": "A run that has not begun within its ttl ends as `expired`.",
    "terms.timeout": "A run that has not ended within its timeout ends as `timed_out`.",
    "terms.attempts": "`max_attempts` of a call wins over the app's.",
    "terms.tags": "The runs of an app are listed, and cancelled, by their tag.",
    "terms.keys": "What a call asks of the queue is not part of its idempotency fingerprint.",
    "terms.clients": "The clients and the command line can ask for each of them.",
    "queue.position": "A run that waits for its turn has its position on its record, from 1.",
    "terms.durable": "What a call has asked outlives its service, in both databases.",
  }),
  ...section("docs/queues.md: Fairness", {
    "queue.fair": "Lines of an app take turns: the waiting runs of one caller do not delay those of another.",
    "queue.weights": "A line has as many turns in each round as its weight says.",
    "fair.sync-turns":
      "Waiting callers of an app take turns: many calls of one do not delay a single call of another.",
    "fair.weight": "A service account of a higher weight has more turns.",
    "fair.users": "Each end user of an account has turns of their own.",
    "fair.header": "`X-Millrace-Fairness-Key` names the line in which a call waits.",
    "fair.header-refused": "A token of role `call`, or no token, may not name it.",
    "fair.header-bounds": "The name has 1 to 128 visible characters.",
    "fair.record": "The record of an async run has the keys that its call gave.",
    "fair.cli": "The command line gives keys and changes weights.",
    "fair.clients": "Both clients give both keys.",
    "fair.weight-bounds": "A weight is from 1 to 100, and 1 unless it is set; `GET` shows it.",
    "fair.batches": "Callers of a batched function take turns, and share batches.",
    "fair.full-queue":
      "When no more callers may wait, the one with most waiting calls is refused, not another.",
    "fair.no-starvation": "Every caller that waits has its turns, whatever the others do.",
  }),
  ...section("docs/queues.md: Pausing a queue", {
    "queue.pause":
      "While an app's queue is paused its async runs wait; running ones go on, and sync calls are served.",
    "queue.pause-claimed": "Runs that were next for a slot wait too.",
    "queue.pause-durable": "A paused queue stays paused through restarts and deploys.",
    "queue.drain": "While a queue is drained, async calls get 503 `queue_draining`, and waiting runs begin.",
    "queue.get": "A queue shows how many runs wait by priority, the oldest, how many run, and its limits.",
    "queue.audit": "Changes of a queue are in the audit log.",
    "queue.cli": "`millrace queue` shows, pauses, resumes and drains.",
    "queue.nodes": "What one node does to a queue holds on all.",
  }),
  ...section("docs/queues.md: Limits", {
    "queue.config": "`[queue]` is checked, and every value has bounds.",
    "queue.concurrency": "No more async runs of an app run at once than `concurrency_limit`, on all nodes.",
    "queue.key-concurrency":
      "No more runs with the same `concurrency_key` run at once than `concurrency_key_limit`; others pass those that wait.",
    "queue.rate": "In no period begin more runs than `rate_limit` allows.",
    "queue.key-rate": "In no period begin more runs of a key than `concurrency_key_rate_limit` allows.",
    "queue.key-crash": "Runs that wait for their key begin also after the service has died at any point.",
    "queue.backlog": "Beyond `max_backlog` waiting runs, an async call gets 429 `backlog_full`.",
  }),
  ...section("docs/queues.md: Checkpoints", {
    "checkpoint.next-attempt":
      "The next attempt of an async run reads the last checkpoint, and how many chunks are stored.",
    "checkpoint.stored-first":
      "The first checkpoint stores all chunks before it; from then on chunks are stored before they are sent.",
    "checkpoint.exactly-once":
      "A function that continues after what is stored gives its readers neither gap nor double.",
    "checkpoint.killed": "That holds however often replicas and services are killed.",
    "checkpoint.fenced": "Only the service that holds a run's claim stores its chunks and checkpoints.",
    "checkpoint.waits": "While the storage is away, a checkpoint waits.",
    "checkpoint.unused": "A run without a checkpoint begins anew with each attempt.",
    "checkpoint.sync": "For a run that a caller waits for, a checkpoint does nothing.",
    "checkpoint.refused":
      "A checkpoint that is too large or not JSON, or of a batched function, is an exception.",
    "checkpoint.async": "In `async def`, a checkpoint is awaited and does not block the event loop.",
    "checkpoint.cancelled": "A run that makes checkpoints can be cancelled.",
    "checkpoint.kept": "A checkpoint counts as stored, and is removed with what else is stored of its run.",
    "checkpoint.hostile": "Bounds and order of checkpoints and progress are checked where they arrive.",
  }),
  ...section("docs/queues.md: Progress", {
    "progress.record": "The record of a run has the progress that it reported last.",
    "progress.events": "Readers of `/events` get progress as an event without a number.",
    "progress.bounded": "Fraction and message are bounded.",
    "progress.throttled": "However often a function reports, a few reports are stored.",
  }),
  ...section("docs/queues.md: While a run waits", {
    "queue.expected":
      "A run that waits for its turn has the time on its record at which it is expected to begin.",
    "queue.events": "Readers of `/events` get `event: queue` without a number until the run starts.",
    "queue.events.crowd": "However many watch runs of an app, its queue is looked at once a second.",
    "queue.owner": "Position and expected start are the same whichever node is asked.",
    "queue.page": "The dashboard has a page of each app's queue, and pauses it.",
    "queue.told":
      "A waiting stream with `Prefer: progress` gets its headers at once, and comments with its place.",
    "queue.told.failure": "A failure of such a stream is an event, and the answer has no proper end.",
  }),
  ...section("docs/queues.md: Many runs at once", {
    "bulk.retry": "Runs are tried again as new runs with the same arguments; those without are counted.",
    "bulk.cancel": "Queued and running runs are cancelled by conditions.",
    "bulk.delete": "Ended runs are deleted by conditions, with all that is stored of them.",
    "bulk.explicit": "Without a condition, an action on many runs has to say that all are meant.",
    "bulk.survives": "Such an action survives the death of its service, and does nothing twice.",
    "bulk.stopped": "It can be stopped; what it has done stays.",
    "bulk.audit": "The audit log has an entry for each of them.",
    "bulk.command": "`millrace runs retry`, `cancel` and `delete` do the same.",
  }),
};
