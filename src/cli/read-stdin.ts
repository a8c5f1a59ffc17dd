import { usage } from "./failure.ts";

/** All that is piped in; refused at a terminal, where nobody would know that it waits. */
export async function readStdin(wantedBy: string): Promise<string> {
  if (process.stdin.isTTY) throw usage(`${wantedBy} reads from a pipe, but stdin is a terminal`);
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}
