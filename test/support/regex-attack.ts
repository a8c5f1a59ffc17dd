/** A regular expression in a source. */
export type FoundRegex = { readonly file: string; readonly regex: RegExp };

const LITERAL = /(?<=[(,=:[!&|?{};\s])\/((?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)\/([dgimsuvy]*)/g;
const COMMENT = /^\s*(?:\/\/|\/?\*).*$/gm;

/** Every regular expression that stands in these sources as such and repeats something. */
export function regexesIn(sources: ReadonlyMap<string, string>): FoundRegex[] {
  const found: FoundRegex[] = [];
  for (const [file, text] of sources) {
    for (const [, source = "", flags = ""] of text.replaceAll(COMMENT, "").matchAll(LITERAL)) {
      try {
        // What repeats nothing without end is as quick as its text is short.
        if (/[*+]|,\}/.test(source)) found.push({ file, regex: new RegExp(source, flags) });
      } catch {
        // A division, or a path in a text.
      }
    }
  }
  return found;
}

const PUMPS = [
  " ",
  "a",
  "A",
  "0",
  ".",
  "-",
  "_",
  "/",
  "\\",
  '"',
  "'",
  "=",
  ",",
  ";",
  ":",
  "#",
  "%25",
  "(",
  "[",
  "{",
  "<",
  "a.",
  "a-",
  "0.",
  " ,",
  "a ",
  " a",
  "1m",
  "eyJ",
  "\t",
];
const ENDS = ["", "!", "\u00e9", "x\u2028x", "\n"];
/** From short ones, for what doubles with each place, to where what is tried again from each place stands out. */
const LENGTHS = [12, 18, 24, 50, 100, 200, 400, 800, 3_200];

/**
 * Texts of one piece over and over on which the expression takes about as long as one that looks at each place from
 * each place; null when there is none. A search, not a proof.
 */
export function slowText(regex: RegExp): string | null {
  const words =
    regex.source.replaceAll(/\\[sSdDwWbB]|\[[^\]]*\]|\(\?[:!<=]*/g, " ").match(/[\w:;<>=@%/.-]{1,20}/g) ?? [];
  const begins = ["", ...new Set(words.flatMap((word) => [word, word.replaceAll("\\", "")]))].slice(0, 12);
  for (const begin of begins) {
    for (const pump of PUMPS) {
      for (const end of ENDS) {
        for (const length of LENGTHS) {
          const text = begin + pump.repeat(Math.ceil(length / pump.length)) + end;
          const isSlow = (): boolean => spent(() => text.replace(regex, "")) > quadratic(length) / 3;
          // What else the thread had to do hits one of them, not all.
          if ([1, 2, 3].every(isSlow)) return text.slice(0, 40);
        }
      }
    }
  }
  return null;
}

const references = new Map<number, number>();

/** What a search takes that looks at each place from each place, on this machine and now; at least two milliseconds. */
function quadratic(length: number): number {
  const known = references.get(length);
  if (known !== undefined) return known;
  const text = " ".repeat(length);
  const took = Math.max(2_000, Math.min(...[1, 2, 3].map(() => spent(() => text.replace(/\s+;/, "")))));
  references.set(length, took);
  return took;
}

/** Microseconds of this thread's processor. */
function spent(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return user + system;
}
