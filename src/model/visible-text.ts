/** Scripts whose letters need a joiner between them to be written right. */
const JOINED =
  "\\p{scx=Arab}\\p{scx=Syrc}\\p{scx=Mong}\\p{scx=Deva}\\p{scx=Beng}\\p{scx=Guru}\\p{scx=Gujr}\\p{scx=Orya}" +
  "\\p{scx=Taml}\\p{scx=Telu}\\p{scx=Knda}\\p{scx=Mlym}\\p{scx=Sinh}\\p{scx=Khmr}\\p{scx=Mymr}\\p{scx=Tibt}";
const EMOJI = "\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\uFE0F";
/** Joiners and variation selectors where they belong: removed or marked, they would break words and emoji. */
const NEEDED = [
  `(?<=[${JOINED}])[\\u200C\\u200D](?=[${JOINED}])`,
  `(?<=[${EMOJI}])\\u200D(?=[${EMOJI}])`,
  "(?<=[\\p{Extended_Pictographic}\\p{sc=Hani}\\p{sc=Mong}])\\p{Variation_Selector}",
  "(?<=[0-9#*])\\uFE0F(?=\\u20E3)",
];
/** Controls, line separators, lone surrogates, and what is not drawn or turns the direction of the text around it. */
const HIDDEN = "[\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\uFFF9-\\uFFFB]";
const HIDDEN_ONE = new RegExp(HIDDEN, "u");
const HIDDEN_EACH = new RegExp(`${NEEDED.join("|")}|(${HIDDEN})`, "gu");

/** The names of the first controls, by code. Many fonts lack their pictures, such as U+241B. */
const CONTROLS = (
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI " +
  "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split(" ");

/** A character that a reader would not see. */
export type HiddenCharacter = {
  /** Such as `U+202E`. */
  readonly code: string;
  /** What to show in its place: the name of an ASCII control such as `ESC`, or the code. */
  readonly shown: string;
};

/**
 * Splits a text into visible parts and characters that a reader would not see or that change how the rest is shown. In
 * `lines`, line ends and tabs are kept.
 */
export function splitHidden(given: string, kind: "name" | "lines"): readonly (string | HiddenCharacter)[] {
  if (!HIDDEN_ONE.test(given)) return [given];
  const text = kind === "lines" ? given.replaceAll("\r\n", "\n") : given;
  const parts: (string | HiddenCharacter)[] = [];
  let start = 0;
  for (const { index, 1: hidden } of text.matchAll(HIDDEN_EACH)) {
    const isLayout = kind === "lines" && (hidden === "\n" || hidden === "\t");
    if (hidden === undefined || isLayout) continue;
    if (index > start) parts.push(text.slice(start, index));
    parts.push(hiddenCharacter(hidden));
    start = index + hidden.length;
  }
  if (start < text.length) parts.push(text.slice(start));
  return parts;
}

/** The same as one text, with such characters shown as `<U+202E>`. */
export function visibleText(text: string, kind: "name" | "lines" = "name"): string {
  if (!HIDDEN_ONE.test(text)) return text;
  return splitHidden(text, kind).map(partText).join("");
}

export function partText(part: string | HiddenCharacter): string {
  return typeof part === "string" ? part : `<${part.shown}>`;
}

function hiddenCharacter(character: string): HiddenCharacter {
  const point = character.codePointAt(0) ?? 0;
  const code = `U+${point.toString(16).toUpperCase().padStart(4, "0")}`;
  return { code, shown: point === 0x7f ? "DEL" : (CONTROLS[point] ?? code) };
}
