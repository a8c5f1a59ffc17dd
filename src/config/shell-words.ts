/**
 * The words of a command line, split as a shell splits them: blanks separate, quotes hold together, a backslash
 * takes the next character as it is. Nothing is expanded. Null where a quote is not closed or the last backslash
 * has nothing behind it.
 */
export function shellWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? "";
    if (quote === "'") {
      if (char === "'") quote = "";
      else word += char;
    } else if (char === "\\" && (quote === "" || '"\\$`'.includes(text[i + 1] ?? "x"))) {
      i += 1;
      if (i === text.length) return null;
      word = (word ?? "") + text[i];
    } else if (quote === '"') {
      if (char === '"') quote = "";
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== "") return null;
  if (word !== null) words.push(word);
  return words;
}
