import type { Moves } from "../engines/protocol.ts";
import { FRAME } from "./frames.ts";

/** A wire before HELLO, after it, and after INIT_FAILED. */
export type WirePhase = "opening" | "serving" | "failed";

/** A control connection: whether a PING is unanswered. */
export type ControlPhase = "quiet" | "asked";

/** A call that a replica holds. `begun` is only known if the call was asked back, or has told something. */
export type CallPhase = "handed" | "begun" | "streaming" | "over";

type FrameName = keyof typeof FRAME;

/** Legal frames about the replica itself, on the wire. */
export const WIRE_MOVES: Moves<WirePhase, FrameName> = {
  opening: { HELLO: "serving", INIT_FAILED: "failed" },
  serving: {},
  failed: {},
};

/** Legal frames about the replica itself, on the control connection. */
export const CONTROL_MOVES: Moves<ControlPhase, FrameName> = { quiet: {}, asked: { PONG: "quiet" } };

/** Legal frames about a call. WITHDRAWN and BEGUN come on the control connection, as answers. */
export const CALL_MOVES: Moves<CallPhase, FrameName> = {
  handed: {
    RESULT: "over",
    FAILED: "over",
    CANCELLED: "over",
    STREAM: "streaming",
    WITHDRAWN: "over",
    BEGUN: "begun",
    CHECKPOINT: "begun",
    PROGRESS: "begun",
  },
  begun: {
    RESULT: "over",
    FAILED: "over",
    CANCELLED: "over",
    STREAM: "streaming",
    BEGUN: "begun",
    CHECKPOINT: "begun",
    PROGRESS: "begun",
  },
  streaming: {
    CHUNK: "streaming",
    END: "over",
    FAILED: "over",
    CANCELLED: "over",
    BEGUN: "streaming",
    CHECKPOINT: "streaming",
    PROGRESS: "streaming",
  },
  over: {},
};

const NAMES = new Map<number, string>(Object.entries(FRAME).map(([name, type]) => [type, name]));

/** A frame's type as text. */
export function frameName(type: number): string {
  return NAMES.get(type) ?? `frame of type ${type}`;
}

/** The same tables by frame type, for speed: they are used for each frame. Undefined where a frame may not come. */
export const WIRE_STEPS = stepsOf(WIRE_MOVES);
export const CONTROL_STEPS = stepsOf(CONTROL_MOVES);
export const CALL_STEPS = stepsOf(CALL_MOVES);

function stepsOf<Phase extends string>(
  moves: Moves<Phase, FrameName>,
): Record<Phase, readonly (Phase | undefined)[]> {
  const rows = Object.entries<Partial<Record<FrameName, Phase>>>(moves);
  const steps = rows.map(([phase, row]) => [phase, byType<Phase | undefined>(row, undefined)]);
  return Object.fromEntries(steps) as Record<Phase, readonly (Phase | undefined)[]>;
}

/** Values by frame type, for speed; `none` for every other type. */
export function byType<Value>(row: Partial<Record<FrameName, Value>>, none: Value): readonly Value[] {
  const all = Array<Value>(64).fill(none);
  for (const [name, value] of Object.entries(row)) all[FRAME[name as FrameName]] = value;
  return all;
}
