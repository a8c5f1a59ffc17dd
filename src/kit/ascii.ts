/** Writes a few characters among other bytes: `Buffer.write` takes as long as twenty of them before it begins. */
export function writeAscii(text: string, target: Uint8Array, start: number): void {
  for (let i = 0; i < text.length; i++) target[start + i] = text.charCodeAt(i);
}
