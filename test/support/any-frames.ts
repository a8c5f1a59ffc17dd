import { type FrameEvents, FrameReader } from "../../src/replicas/frames.ts";

/** A reader that takes any frame. */
export function anyFrames(onFrame: FrameEvents["onFrame"]): FrameReader {
  return new FrameReader({ admit: () => {}, onFrame });
}
