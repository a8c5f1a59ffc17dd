import { usage } from "./failure.ts";

/** Everything piped in, as text; refused at a terminal, where it would wait without telling anyone. */
export async function readStdin(wantedBy: string): Promise<string> {
  return (await readStdinBytes(wantedBy)).toString();
}

/** The same byte for byte. */
export async function readStdinBytes(wantedBy: string): Promise<Buffer> {
  if (process.stdin.isTTY) throw usage(`${wantedBy} reads from a pipe, but stdin is a terminal`);
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
