/** Smaller ones are not worth it. */
const WORTH_BYTES = 16 * 1024;

/**
 * Frees the memory of a buffer at once, not when V8 comes round to it; it is empty from then on, so nobody may still
 * look at it. One that shares its memory with others is left alone. Sockets read into blocks of 64 KB: hundreds of
 * them as garbage make glibc's heap grow, and it never shrinks below the last block that is still in use.
 */
export function releaseBytes({ buffer, byteLength }: Buffer): void {
  if (byteLength < WORTH_BYTES || byteLength !== buffer.byteLength || !(buffer instanceof ArrayBuffer))
    return;
  buffer.transfer(0);
}
