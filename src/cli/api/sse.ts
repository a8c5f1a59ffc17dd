import { SseParser } from "../../client/sse.ts";
import type { Message } from "../../client/sse.ts";

/** The messages of a stream of server-sent events, as they come; one that was cut off in the middle is none. */
export async function* readMessages(body: AsyncIterable<Uint8Array>): AsyncGenerator<Message> {
  const parser = new SseParser();
  for await (const bytes of body) yield* parser.feed(bytes);
}
