import { expect, test } from "vitest";
import { foldName, judgeEntryName, showName } from "../../../../src/apps/bundles/entry-names.ts";

const FINE: readonly (readonly [string, readonly string[], boolean?])[] = [
  ["main.py", ["main.py"]],
  ["a/b/c.py", ["a", "b", "c.py"]],
  ["pkg/", ["pkg"], true],
  ["a/b/", ["a", "b"], true],
  ["-rf", ["-rf"]],
  ["--help/x", ["--help", "x"]],
  [".env", [".env"]],
  ["..a", ["..a"]],
  ["a..", ["a.."]],
  ["a/..b/c", ["a", "..b", "c"]],
  ["a b.txt", ["a b.txt"]],
  ["~/x", ["~", "x"]],
  ["$HOME", ["$HOME"]],
  ["100%25.txt", ["100%25.txt"]],
  ["a%2fb", ["a%2fb"]],
  ["bücher/日本語.txt", ["bücher", "日本語.txt"]],
  ["👩‍🚀.png", ["👩‍🚀.png"]],
  ["con", ["con"]],
  ["data:1", ["data:1"]],
  ["dir/c:x", ["dir", "c:x"]],
  ["__proto__", ["__proto__"]],
];

for (const [text, names, isFolder = false] of FINE) {
  test(`${JSON.stringify(text)} is a name`, () => {
    expect(judgeEntryName(Buffer.from(text))).toEqual({ kind: "fine", name: { names, isFolder } });
  });
}

const REFUSED: readonly (readonly [string, RegExp])[] = [
  ["", /is empty/],
  ["../x", /dots/],
  ["..", /dots/],
  ["../", /dots/],
  ["a/../../x", /dots/],
  ["a/..", /dots/],
  ["./main.py", /dots/],
  [".", /dots/],
  ["a/./b", /dots/],
  ["...", /dots/],
  [".. /x", /dots/],
  [" ../x", /dots/],
  [" ", /dots or spaces/],
  ["%2e%2e/x", /dots/],
  ["%2E%2e/x", /dots/],
  [".%2e/x", /dots/],
  ["%252e%252e/x", /dots/],
  ["..%2fx", /dots/],
  ["a%2f..%2f..%2fx", /dots/],
  ["..%5cx", /dots/],
  ["．．/x", /dots/],
  ["‥/x", /dots/],
  ["/etc/passwd", /absolute/],
  ["//host/share", /absolute/],
  ["/", /absolute/],
  ["C:/x", /drive/],
  ["c:x", /drive/],
  ["C:\\x", /backslash/],
  ["..\\x", /backslash/],
  ["\\\\host\\x", /backslash/],
  ["a\\b", /backslash/],
  ["a//b", /empty name/],
  ["a//", /empty name/],
  ["a\0b", /control/],
  ["main.py\0.txt", /control/],
  ["a\nb", /control/],
  ["a\rb", /control/],
  ["a\tb", /control/],
  ["a\u001b[31m", /control/],
  ["a\u007f", /control/],
  ["a\u0085b", /control/],
  ["a\u2028b", /control/],
  ["gpj.\u202eyp.exe", /control/],
];

test.each(REFUSED)("%j is refused", (text, problem) => {
  expect(judgeEntryName(Buffer.from(text))).toEqual({
    kind: "refused",
    problem: expect.stringMatching(problem) as string,
  });
});

test.each([
  ["a name of 255 bytes", "x".repeat(255), "x".repeat(256), /a name longer than 255/],
  ["a name of 255 bytes in other letters", `${"ü".repeat(127)}x`, "ü".repeat(128), /longer than 255/],
  [
    "a path of 1,024 bytes",
    `${"x/".repeat(4)}${"y".repeat(251)}`.repeat(4).slice(0, 1024),
    "x".repeat(1025),
    /is longer than 1024/,
  ],
  ["32 levels", `${"a/".repeat(31)}x`, `${"a/".repeat(32)}x`, /32 levels/],
  ["32 levels of folders", "a/".repeat(32), "a/".repeat(33), /32 levels/],
])("%s is fine, and no more", (_, fits, tooMuch, problem) => {
  expect(judgeEntryName(Buffer.from(fits)).kind).toBe("fine");
  const judged = judgeEntryName(Buffer.from(tooMuch));
  expect(judged).toEqual({ kind: "refused", problem: expect.stringMatching(problem) as string });
});

test.each([
  ["an overlong dot", [0xc0, 0xae, 0xc0, 0xae, 0x2f, 0x78]],
  ["a surrogate", [0xed, 0xa0, 0x80]],
  ["a cut character", [0x61, 0xc3]],
  ["another code page", [0x62, 0x81, 0x63]],
])("%s is not UTF-8", (_, raw) => {
  expect(judgeEntryName(Uint8Array.from(raw))).toEqual({ kind: "refused", problem: "is not UTF-8" });
});

test("a byte order mark is part of a name, not a way to have it twice", () => {
  expect(judgeEntryName(Buffer.from("\ufeffmain.py"))).toMatchObject({ name: { names: ["\ufeffmain.py"] } });
});

test.each([
  ["A.py", "a.PY"],
  ["ü", "u\u0308"],
  ["Ü", "u\u0308"],
  ["straße", "STRASSE"],
  ["ſ", "S"],
  ["\u212a", "k"],
  ["ΟΔΟΣ", "οδοσ"],
])("%j and %j are one name to some file system", (one, other) => {
  expect(foldName(one)).toBe(foldName(other));
});

test("different names stay different", () => {
  expect(foldName("a_b")).not.toBe(foldName("a-b"));
  expect(foldName("u")).not.toBe(foldName("ü"));
});

test("a shown name is one line that can be printed anywhere", () => {
  expect(showName("a\nb\u001b[0m`\\")).toBe("`a\\u{a}b\\u{1b}[0m\\`\\\\`");
  expect(showName(Uint8Array.from([0x61, 0xff, 0x00]))).toBe("`aÿ\\u{0}`");
  expect(showName("\u202egpj")).toBe("`\\u{202e}gpj`");
  expect(showName("x".repeat(101))).toBe(`\`${"x".repeat(100)}…\``);
  expect(showName("x".repeat(100))).toBe(`\`${"x".repeat(100)}\``);
});
