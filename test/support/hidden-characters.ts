/** Characters that a page or a terminal must not be given as they are: controls, what turns text around, what is not drawn. */
export const HIDDEN_SAMPLES: readonly string[] = [
  ..."\u0000\u0007\u0008\u000B\u000C\u000D\u001B\u007F\u0080\u0085\u009B\u009F",
  ..."\u061C\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069",
  ..."\u00AD\u200B\u200C\u200D\u2028\u2029\u2060\u2064\u206A\uFEFF\uFFF9\u3164",
  "\u{E0001}",
  "\u{E0041}",
  "\u{E007F}",
];

// Written out, and not the expression that the code has: it would agree with its own mistakes.
/* oxlint-disable no-control-regex, no-misleading-character-class */
const RAW =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;
/* oxlint-enable no-control-regex, no-misleading-character-class */

/** Such characters in a text, by their codes; line ends and tabs are none. */
export function hiddenIn(text: string): string[] {
  return Array.from(text.matchAll(RAW), ([found]) => `U+${found.codePointAt(0)!.toString(16)}`);
}
