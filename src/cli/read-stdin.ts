import { usage } from "./failure.ts";

/** Everything piped in; refused at a terminal, where it would wait without telling anyone. */
export async function readStdin(wantedBy: string): Promise<string> {
  if (process.stdin.isTTY) throw usage(`${wantedBy} reads from a pipe, but stdin is a terminal`);
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}
