import type { z } from "zod";
import { BadFrame } from "../frame-reader.ts";

/** By phase: which words may come, and the phase that each leads to. */
export type WordMoves<Phase extends string, Word extends string> = Readonly<
  Record<Phase, Readonly<Partial<Record<Word, Phase>>>>
>;

/** Takes a line for a message in JSON; throws `BadFrame` for what is none. Each message has one member, its word. */
export function parseMessage<Message>(shape: z.ZodType<Message>, line: Buffer, sender: string): Message {
  let value: unknown;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    throw new BadFrame("a line that is not JSON");
  }
  const result = shape.safeParse(value);
  if (!result.success) throw new BadFrame(`a message that no ${sender} sends`);
  return result.data;
}

/** Reads the lines of one connection; throws `BadFrame` also for what may not come then. */
export function orderedReader<Message extends object, Phase extends string>(
  parse: (line: Buffer) => Message,
  moves: WordMoves<Phase, string>,
  first: Phase,
): (line: Buffer) => Message {
  let phase = first;
  return (line) => {
    const message = parse(line);
    const [word = ""] = Object.keys(message);
    const next = moves[phase][word];
    if (next === undefined) throw new BadFrame(`"${word}" out of turn`);
    phase = next;
    return message;
  };
}
