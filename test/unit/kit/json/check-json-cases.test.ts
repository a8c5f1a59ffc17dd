import { describe, expect, test } from "vitest";
import { checkJson } from "../../../../src/kit/json/check-json.ts";

/** The words of a text, each one case; pictures of control characters and of the space stand for these. */
function cases(text: string): string[] {
  const words = text.trim().split(/\s+/);
  return words.map((word) =>
    word.replace(/[\u2400-\u2420]/g, (picture) => String.fromCharCode(picture.charCodeAt(0) - 0x2400)),
  );
}

/** Values that stand as `{"a":VALUE}`. */
const GOOD_VALUES = cases(String.raw`
    0 -0 1 -1 10 123 1.5 0.5 -0.5 0.0 1e1 1E1 1e+1 1e-1 0e0 0E+0 -0e-0 1.5e10 123.456E-78 20e1 0.1e1
    1e400 -1e-400 100000000000000000000000 -9223372036854775809 0.00000000000000000000000001 ␠␠7␠␠
    true false null [] {} [[]] [{}] [null] [1,2,3] ["a",1,null,{"b":[]}] [[],[],{"x":{}}] [␠] {␠}
    [␠1␠,␠2␠] {␠"b"␠:␠1␠} [␊1␍␊,␉2␠]
    "" "␠" "a" "\"" "\\" "\/" "/" "\b\f\n\r\t" "\u0000" "\u001f" "\u0041" "\uabCD" "\uFFFF" "\uFFFE"
    "\ud7ff" "\ue000" "\u2028\u2029" "\ud800\udc00" "\uDBFF\uDFFF" "a\ud83d\ude00b"
    "\ud83d\ude00\ud83d\ude00" "é" "水" "😀" "//␠not" "\\u0041" "\\\"" "'" "{}[],:"
    "seven77" "eight888" "sixteen_bytes___"
  `).concat(['"\u007f"', '"\u0080"', '"\u00a0"', '"\u2028"', '"\uFEFF"', '"\uFFFF"', '"\u{10FFFF}"']);

const BAD_VALUES = cases(String.raw`
    ␠ +1 ++1 --1 - -a -␠1 01 -01 00 007 1. -1. .5 -.5 1..2 1.e1 1e 1e+ 1e- 1E 1e1.5 1ee1 1e+-1 0x1 0b1
    1_000 1␠000 1a 1, 0. 0e 1.2.3 １ 1f 12n NaN -NaN nan Infinity -Infinity inf -inf Inf +Infinity
    True TRUE False None nul nulll tru truee fals undefined t f n a 'a'
    " "a a" "a"" "a"␠"b" "\" "\a" "\x41" "\0" "\u" "\u1" "\u12" "\u123" "\u123g" "\U0041" "\u+041"
    "\u␠041" "\␊" "\u00e" "\é" "\\\" \u0022a\u0022 "␊" "␉" "␍" "␀" "␟" "␈"
    "\ud800" "\udfff" "\ud800\u0041" "\ud800\" "\ud800\u" "\ud800\udc0" "\ud800é"
    [ ] [1 1] [1, [,1] [1,,2] [1,] [,] [1␠2] [1:2] [1;2] ["a":1] [} [1}
    { } {] {1} {1:2} {a:1} {'a':1} {"b"} {"b":} {"b":1,} {,"b":1} {"b"::1} {"b":1␠"c":2} {"b",1}
    {"b"␠1} {"b":1,,"c":2} {null:1} {"b":1] {:1} {"b":1;"c":2}
    1/**/ /*␠*/1 1// #1 <1> * & 1␌ 1␋ 1␀
  `).concat(["", "1\u00a0", "\u00a01", "1\u2003", "\uFEFF1", "1\u0085"]);

/** Whole bodies. */
const GOOD_BODIES = cases(String.raw`
  {} ␠{}␠ ␊{␊}␊ ␉{␍}␍␊ {"a":1} {"":0} {"a":1,"b":2} {␠"a"␠:␠1␠,␠"b"␠:␠2␠} {"\u0000":1} {"\"":1}
  {"a\nb":1} {"é":1} {"😀":1} {"__proto__":null} {"a":{"a":{}}}
`);

const BAD_BODIES = cases(String.raw`
    ␠ ␊ { } {}} {{}} {}{} {}, {}␠x {}␀ {}# {}// /**/{} {}/**/ [] [{}] "" "a" 1 true null nul
    ␌{} ␀{} {"a" {" {"a {"a\ {"a\" {"a": {"a":1 {"a":1, {"a":1," {"a":1,"b {"a":tru {"a":"\u00 {,}
    {"a":1,"a":1} {"a":1,"\u0061":1} {"b":{"a":1,"a":1}} {"a":1}{"a":1} {"a":- {"a":1. {"a":1e
    {"a␉b":1} {"\ud800":1} {"a":1}] [{"a":1} data:␠{} a=1&b=2 <xml/> )]}'{} {}␊{}
  `).concat(["\uFEFF{}", "{\uFEFF}", "{}\uFEFF", "\u00a0{}", "{}\u00a0"]);

const isFaulty = (body: string) => checkJson(Buffer.from(body)) !== null;

describe("good values", () => {
  test.each(GOOD_VALUES)("%j passes", (value) => expect(isFaulty(`{"a":${value}}`)).toBe(false));

  test("they pass together, in one array", () => {
    expect(isFaulty(`{"a":[${GOOD_VALUES.join(",")}]}`)).toBe(false);
  });
});

describe("bad values", () => {
  test.each(BAD_VALUES)("%j is refused in an object", (value) =>
    expect(isFaulty(`{"a":${value}}`)).toBe(true),
  );

  test.each(BAD_VALUES)("%j is refused after another element", (value) =>
    expect(isFaulty(`{"a":[0,${value}]}`)).toBe(true),
  );
});

describe("whole bodies", () => {
  test.each(GOOD_BODIES)("%j passes", (body) => expect(isFaulty(body)).toBe(false));

  test.each(BAD_BODIES)("%j is refused", (body) => expect(isFaulty(body)).toBe(true));

  test("every good body is refused when cut anywhere", () => {
    for (const body of GOOD_BODIES.map((text) => text.trim())) {
      const bytes = Buffer.from(body);
      for (let length = 1; length < bytes.length; length++) {
        expect(checkJson(bytes.subarray(0, length)), `${body} cut to ${length}`).not.toBeNull();
      }
    }
  });
});
