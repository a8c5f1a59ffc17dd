import { section } from "./row.ts";

/** Server-sent events, and runs that can be read again, re-attached to and cancelled. */
export const STREAMING = {
  ...section("seed: Streaming mode 1-2; contract 1: Streaming", {
    "stream.sources": "A generator, an async generator or a returned iterator streams.",
    "stream.headers":
      "200, text/event-stream; charset=utf-8, no-cache, chunked, vary: Accept-Encoding, x-request-id.",
    "stream.accel-buffering": "A stream carries x-accel-buffering: no.",
    "stream.gzip": "A stream is gzip when the caller accepts gzip, flushed per message.",
    "stream.accept-ignored": "A generator streams whatever Accept says.",
    "stream.plain-value":
      "A plain value asked for with Accept: text/event-stream is one message, the bare result.",
    "stream.first-headers":
      "Headers leave with the first chunk or 1 s after the generator started, whichever comes first.",
    "stream.early-exception": "An exception before the headers is an ordinary status.",
  }),
  ...section("seed: Streaming mode 3-5, Events; contract 1: Streaming", {
    "stream.message": "Each yield is one message `data: <chunk>` and a blank line.",
    "stream.progressive": "Messages arrive as the function yields them.",
    "stream.example": "One text per second for upper_range iterations is that many messages.",
    "stream.no-event-names": "Yielded items arrive without a named event type.",
    "stream.values": "Strings are sent as they are, other values as JSON.",
    "stream.line-breaks": "Line breaks of any kind inside a chunk become several data: lines.",
    "stream.no-injection": "Nothing a chunk contains becomes another field or message.",
    "stream.surrogates": "Lone surrogates become U+FFFD.",
    "stream.sse-auto": 'With sse = "auto" a string that is complete SSE text passes unchanged.',
    "stream.sse-auto.rule":
      "Complete SSE text is LF only, ends blank, has known field lines only and data: in each block.",
    "stream.sse-wrap": 'sse = "wrap" turns the exception off.',
    "stream.heartbeat": "A stream idle for more than 15 s gets a comment line.",
    "stream.late-exception":
      "An exception after the headers is `event: error`, then a close without the last chunk.",
    "stream.late-exception.failure": "A run that fails after its headers is failure.",
    "stream.backpressure": "The generator is paused while its caller is slow, in bounded memory.",
    "stream.stall": "A reader stalled longer than stream_stall_timeout is dropped.",
    "stream.leave": "The generator is closed and the run cancelled when the last reader left.",
    "stream.leave.1s": "Closing takes at most 1 s for async functions and at replica_concurrency = 1.",
    "stream.leave.continue": "X-Disconnect: continue makes the generator run on.",
    "stream.clients": "Our client libraries send X-Disconnect: continue and cancel explicitly.",
    "stream.async-body": "An async generator run's stored and forwarded body is the whole SSE text.",
  }),
  ...section("contract 2: limits", {
    "stream.max-chunk": "A chunk over max_chunk ends the run as a failure.",
    "stream.max-transcript": "Past max_transcript an async or forwarded run fails.",
    "stream.max-transcript.live":
      "Past max_transcript a live stream goes on and /events starts with event: truncated.",
  }),
  ...section("contract 1: Runs as things", {
    "runs.token": "A run is reached with a token only, also on public apps.",
    "runs.get": "GET …/runs/{id} is the run record plus result once finished.",
    "runs.input": "GET …/runs/{id}/input is the stored input.",
    "runs.result": "GET …/result is the stored response: its status, content type and bytes.",
    "runs.result.unfinished": "GET …/result of an unfinished run is 202 + Retry-After.",
    "runs.result.wait": "Prefer: wait=N on …/result blocks.",
    "runs.events": "GET …/events re-attaches to any run in any mode, live or finished.",
    "runs.events.ids": "Each chunk is a message with id: N from 1; an app's own id: is dropped.",
    "runs.events.resume": "Last-Event-ID: N resumes after N.",
    "runs.events.end": "The last message is `event: end` with its own id and the final record.",
    "runs.events.after-end": "Re-attaching after the end is 204.",
    "runs.events.no-pacing": "Readers of /events never pace the generator.",
    "runs.cancel": "POST …/cancel answers 202, and the caller sees the run end as cancelled.",
    "runs.cancel.finished": "Cancelling a finished run is 409.",
    "runs.cancel.generator": "Cancelling closes generators.",
  }),
  ...section("docs/decisions/0012-transcripts.md", {
    "runs.events.beyond":
      "A reader beyond what is stored gets event: truncated, then event: end; 204 is for one that has had the end.",
    "runs.events.end-number":
      "The number of `end` is never that of a chunk which a reader may have had, also if that chunk was lost.",
    "runs.events.shared": "What readers of one run are sent is read and encoded once for all at one place.",
    "runs.events.turns":
      "Readers are served in turns, projects alternately, in a fifth of the event loop's time at most.",
    "runs.events.limits":
      "A run may have 5,000 readers and a project 7,500; a further one gets 429 and Retry-After.",
    "runs.events.crowd":
      "With 5,000 readers of one stream, or all that a project may have, another project's p99 is at most 3 x alone.",
  }),
  ...section("contract 1: Runs as things, cancel", {
    "cancel.exception": "Cancel raises an exception that `except Exception` does not catch.",
    "cancel.async-task": "Cancel of an async def call cancels its task.",
    "cancel.kill": "Code that has not stopped 5 s after cancel has its replica killed.",
    "cancel.drain-first": "At replica_concurrency > 1 that replica is drained of its other calls first.",
    "cancel.slot": "A slot is free only when the code has really stopped.",
  }),
};
