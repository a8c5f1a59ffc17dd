import { randomFillSync } from "node:crypto";

/** Random bytes are drawn many at a time: one by one, each draw would cost a microsecond. */
const POOL_BYTES = 4096;
const pool = Buffer.allocUnsafe(POOL_BYTES);
let at = POOL_BYTES;

/** That many random bytes as hexadecimal digits, never all of them zero. */
export function randomHex(bytes: number): string {
  if (at + bytes > POOL_BYTES) {
    randomFillSync(pool);
    at = 0;
  }
  const start = at;
  at += bytes;
  const hex = pool.toString("hex", start, at);
  return /[^0]/.test(hex) ? hex : randomHex(bytes);
}
