import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { inject } from "vitest";
import type { MadeThing } from "./made-once.ts";

/** Where a thing is that is made once in a run (`made-once.ts`); the first who asks waits until it is made. */
export async function placeOf(thing: MadeThing): Promise<string> {
  const socket = connect(inject("makerSocket"));
  socket.end(thing);
  const answer = JSON.parse(await text(socket)) as { place: string } | { failure: string };
  if ("failure" in answer) throw new Error(answer.failure);
  return answer.place;
}
