import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Position } from "../../../src/client/stream.ts";

/** One message of `…/events`: what it says, and its number if it is the last of its yield. */
type Sent = { readonly text: string; readonly event: number | null };

/** The messages of a stream in which yield number i has `sizes[i]` of them. */
function stream(sizes: readonly number[]): Sent[] {
  return sizes.flatMap((size, i) =>
    Array.from({ length: size }, (_, k) => ({
      text: `${i + 1}.${k + 1}`,
      event: k === size - 1 ? i + 1 : null,
    })),
  );
}

/** The messages after a yield, as `Last-Event-ID` has them sent. */
function after(messages: readonly Sent[], event: number): Sent[] {
  const last = messages.findIndex((message) => message.event === event);
  return messages.slice(last + 1);
}

test("however often a stream is cut, and wherever, every message is had once and in order", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 20 });
  const cuts = fc.array(fc.nat(12), { maxLength: 20 });
  fc.assert(
    fc.property(sizes, fc.nat(30), cuts, (sizes, live, cuts) => {
      const messages = stream(sizes);
      const position = new Position();
      const had: string[] = [];
      for (const { text } of messages.slice(0, live)) {
        position.messages += 1;
        had.push(text);
      }
      for (const length of [...cuts, Infinity]) {
        position.resume();
        for (const { text, event } of after(messages, position.event).slice(0, length)) {
          if (position.take(event)) had.push(text);
        }
      }
      expect(had).toEqual(messages.map(({ text }) => text));
    }),
  );
});
