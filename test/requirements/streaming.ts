import { later, section } from "./row.ts";

const PIECE = "streaming";

/** Server-sent events, and runs that can be read again, re-attached to and cancelled. */
export const STREAMING = {
  ...section("seed: Streaming mode 1-2; contract 1: Streaming", {
    "stream.sources": later(PIECE, "A generator, an async generator or a returned iterator streams."),
    "stream.headers": later(
      PIECE,
      "200, text/event-stream; charset=utf-8, no-cache, chunked, vary: Accept-Encoding, x-request-id.",
    ),
    "stream.accel-buffering": later(PIECE, "A stream carries x-accel-buffering: no."),
    "stream.gzip": later(PIECE, "A stream is gzip when the caller accepts gzip, flushed per message."),
    "stream.accept-ignored": later(PIECE, "A generator streams whatever Accept says."),
    "stream.plain-value": later(
      PIECE,
      "A plain value asked for with Accept: text/event-stream is one message, the bare result.",
    ),
    "stream.first-headers": later(
      PIECE,
      "Headers leave with the first chunk or 1 s after the generator started, whichever comes first.",
    ),
    "stream.early-exception": later(PIECE, "An exception before the headers is an ordinary status."),
  }),
  ...section("seed: Streaming mode 3-5, Events; contract 1: Streaming", {
    "stream.message": later(PIECE, "Each yield is one message `data: <chunk>` and a blank line."),
    "stream.progressive": later(PIECE, "Messages arrive as the function yields them."),
    "stream.example": later(PIECE, "One text per second for upper_range iterations is that many messages."),
    "stream.no-event-names": later(PIECE, "Yielded items arrive without a named event type."),
    "stream.values": later(PIECE, "Strings are sent as they are, other values as JSON."),
    "stream.line-breaks": later(PIECE, "Line breaks of any kind inside a chunk become several data: lines."),
    "stream.no-injection": later(PIECE, "Nothing a chunk contains becomes another field or message."),
    "stream.surrogates": later(PIECE, "Lone surrogates become U+FFFD."),
    "stream.sse-auto": later(PIECE, 'With sse = "auto" a string that is complete SSE text passes unchanged.'),
    "stream.sse-auto.rule": later(
      PIECE,
      "Complete SSE text is LF only, ends blank, has known field lines only and data: in each block.",
    ),
    "stream.sse-wrap": later(PIECE, 'sse = "wrap" turns the exception off.'),
    "stream.heartbeat": later(PIECE, "A stream idle for more than 15 s gets a comment line."),
    "stream.late-exception": later(
      PIECE,
      "An exception after the headers is `event: error`, then a close without the last chunk.",
    ),
    "stream.late-exception.failure": later(PIECE, "A run that fails after its headers is failure."),
    "stream.backpressure": later(
      PIECE,
      "The generator is paused while its caller is slow, in bounded memory.",
    ),
    "stream.stall": later(PIECE, "A reader stalled longer than stream_stall_timeout is dropped."),
    "stream.leave": later(PIECE, "The generator is closed and the run cancelled when the last reader left."),
    "stream.leave.1s": later(
      PIECE,
      "Closing takes at most 1 s for async functions and at replica_concurrency = 1.",
    ),
    "stream.leave.continue": later(PIECE, "X-Disconnect: continue makes the generator run on."),
    "stream.clients": later(
      "command line",
      "Our client libraries send X-Disconnect: continue and cancel explicitly.",
    ),
    "stream.async-body": later(
      "async and webhooks",
      "An async generator run's stored and forwarded body is the whole SSE text.",
    ),
  }),
  ...section("contract 2: limits", {
    "stream.max-chunk": later(PIECE, "A chunk over max_chunk ends the run as a failure."),
    "stream.max-transcript": later(PIECE, "Past max_transcript an async or forwarded run fails."),
    "stream.max-transcript.live": later(
      PIECE,
      "Past max_transcript a live stream goes on and /events starts with event: truncated.",
    ),
  }),
  ...section("contract 1: Runs as things", {
    "runs.token": later(PIECE, "Runs are read with a token only, also on public apps."),
    "runs.get": later(PIECE, "GET …/runs/{id} is the run record plus result once finished."),
    "runs.input": later(PIECE, "GET …/runs/{id}/input is the stored input."),
    "runs.result": later(PIECE, "GET …/result is the stored response: its status, content type and bytes."),
    "runs.result.unfinished": later(PIECE, "GET …/result of an unfinished run is 202 + Retry-After."),
    "runs.result.wait": later(PIECE, "Prefer: wait=N on …/result blocks."),
    "runs.events": later(PIECE, "GET …/events re-attaches to any run in any mode, live or finished."),
    "runs.events.ids": later(
      PIECE,
      "Each chunk is a message with id: N from 1; an app's own id: is dropped.",
    ),
    "runs.events.resume": later(PIECE, "Last-Event-ID: N resumes after N."),
    "runs.events.end": later(PIECE, "The last message is `event: end` with its own id and the final record."),
    "runs.events.after-end": later(PIECE, "Re-attaching after the end is 204."),
    "runs.events.no-pacing": later(PIECE, "Readers of /events never pace the generator."),
    "runs.cancel": later(PIECE, "POST …/cancel answers 202, and the caller sees the run end as cancelled."),
    "runs.cancel.finished": later(PIECE, "Cancelling a finished run is 409."),
    "runs.cancel.generator": later(PIECE, "Cancelling closes generators."),
  }),
  ...section("contract 1: Runs as things, cancel", {
    "cancel.exception": "Cancel raises an exception that `except Exception` does not catch.",
    "cancel.async-task": "Cancel of an async def call cancels its task.",
    "cancel.kill": "Code that has not stopped 5 s after cancel has its replica killed.",
    "cancel.drain-first": "At replica_concurrency > 1 that replica is drained of its other calls first.",
    "cancel.slot": "A slot is free only when the code has really stopped.",
  }),
};
