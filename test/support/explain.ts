import { awaited } from "./until.ts";

type Teller = () => string | Promise<string>;

const tellers = new Set<Teller>();

/** What a reader of a failed test wants to see beside the assertion. Ends with the answer's call. */
export function explains(tell: Teller): () => void {
  tellers.add(tell);
  return () => tellers.delete(tell);
}

const KEPT_CHARACTERS = 8_000;

/** Remembers the end of what is written to it. */
export class Tail {
  text = "";

  write(text: string): void {
    this.text = (this.text + text).slice(-KEPT_CHARACTERS);
  }
}

/** All that is known to this process about why a test failed. */
export async function explanation(): Promise<string> {
  const words = awaited().map((what) => `still waiting for: ${what}`);
  for (const tell of tellers) {
    try {
      const text = (await tell()).trim();
      if (text !== "") words.push(text);
    } catch (error) {
      words.push(`no explanation: ${String(error)}`);
    }
  }
  return words.join("\n");
}
