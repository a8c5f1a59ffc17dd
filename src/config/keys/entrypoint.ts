import { line, listOf } from "../readers.ts";
import type { Reader } from "../readers.ts";
import { shellWords } from "../shell-words.ts";

const words = listOf("a list of up to 100 words, or one command line", line(4096), 100);

/**
 * Takes the words of a command, or its line, which is split as a shell would. So is a list of one item with blanks
 * in it: clients send a line as such a list, and no program has a name like that.
 */
export const entrypoint: Reader<readonly string[]> = {
  ...words,
  read(raw) {
    const [only] = Array.isArray(raw) && raw.length === 1 ? (raw as unknown[]) : [raw];
    if (typeof only !== "string") return words.read(raw);
    if (only.length > 4096) return undefined;
    const split = shellWords(only);
    return split === null ? undefined : words.read(split);
  },
};
