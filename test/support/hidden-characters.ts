/** Characters that a page or a terminal must not be given as they are: controls, what turns text around, what is not drawn. */
export const HIDDEN_SAMPLES: readonly string[] = [
  [0x00, 0x07, 0x08, 0x0b, 0x0c, 0x0d, 0x1b, 0x7f, 0x80, 0x85, 0x9b, 0x9f],
  [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069],
  [0xad, 0x200b, 0x200c, 0x200d, 0x2028, 0x2029, 0x2060, 0x2064, 0x206a, 0xfeff, 0xfff9, 0x3164],
  [0xe0001, 0xe0041, 0xe007f],
].flatMap((codes) => codes.map((code) => String.fromCodePoint(code)));

// Written out, and not the expression that the code has: it would agree with its own mistakes.
/* oxlint-disable no-control-regex, no-misleading-character-class */
const RAW =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;
/* oxlint-enable no-control-regex, no-misleading-character-class */

/** Such characters in a text, by their codes; line ends and tabs are none. */
export function hiddenIn(text: string): string[] {
  return Array.from(text.matchAll(RAW), ([found]) => `U+${found.codePointAt(0)!.toString(16)}`);
}
