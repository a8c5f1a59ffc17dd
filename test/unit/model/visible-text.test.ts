import { describe, expect, test } from "vitest";
import { splitHidden, visibleText } from "../../../src/model/visible-text.ts";
import { HIDDEN_SAMPLES, hiddenIn } from "../../support/hidden-characters.ts";

describe("text from outside", () => {
  test.each(HIDDEN_SAMPLES)("%j is shown", (character) => {
    const shown = visibleText(`a${character}b`);
    expect(hiddenIn(shown)).toEqual([]);
    expect(shown).not.toBe("ab");
    expect(visibleText(`a${character}b`, "lines")).toBe(shown);
  });

  test("a character has its code or its name", () => {
    expect(visibleText("app\u202Egpj.exe")).toBe("app<U+202E>gpj.exe");
    expect(visibleText("\u001B[31m\u007F\u009B\u{E0041}\uD800")).toBe(
      "<ESC>[31m<DEL><U+009B><U+E0041><U+D800>",
    );
    expect(splitHidden("a\u200B", "name")).toEqual(["a", { code: "U+200B", shown: "U+200B" }]);
  });

  test("lines keep their ends and tabs, a name has neither", () => {
    expect(visibleText("a\tb\r\nc\rd\n", "lines")).toBe("a\tb\nc<CR>d\n");
    expect(visibleText("a\tb\r\nc")).toBe("a<TAB>b<CR><LF>c");
  });

  test.each([
    "שלום עולם",
    "مرحبا بالعالم ١٢٣",
    "می\u200Cخواهم", // Persian writes words with a joiner in between.
    "क्\u200Dष",
    "👩\u200D💻 ❤\uFE0F 1\uFE0F\u20E3 👍🏽",
    "naïve Ünïcödé 漢字 ไทย",
  ])("%s stays as it is", (text) => {
    expect(visibleText(text)).toBe(text);
  });

  test("a joiner or selector that joins nothing is shown", () => {
    expect(visibleText("ap\u200Dp\u200Cl\uFE0Fe")).toBe("ap<U+200D>p<U+200C>l<U+FE0F>e");
  });
});
