import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { checkJson, MAX_DEPTH, MAX_INTEGER_DIGITS } from "../../../../src/kit/json/check-json.ts";
import { FEW_KEYS } from "../../../../src/kit/json/keys.ts";

const check = (body: string | Uint8Array) => checkJson(Buffer.from(body as string));
const messageOf = (body: string | Uint8Array) => check(body)?.message;
const says = (reason: string, at: number) => `The body is not a valid JSON object: ${reason} at byte ${at}.`;
const nested = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
const withKeys = (keys: readonly string[]) => `{${keys.map((key) => `${key}:0`).join(",")}}`;
const numberedKeys = (count: number) => Array.from({ length: count }, (_, i) => `"k${i}"`);

describe("what a body may be", () => {
  test("no body counts as an empty object", () => expect(check("")).toBeNull());
  test("white space alone is not an object", () =>
    expect(messageOf(" \n")).toBe(says("nothing but white space", 0)));

  test.each([
    ["[1]", says("an array", 0)],
    [' "text"', says("a single value", 1)],
    ["12", says("a single value", 0)],
    ["null", says("a single value", 0)],
    ["true", says("a single value", 0)],
  ])("a top level of %s is refused", (body, message) => expect(messageOf(body)).toBe(message));

  test.each([
    ['{"a":1', says("an object that is not closed", 0)],
    ['{"a":[1', says("an array that is not closed", 5)],
    ['{"a":"x', says("a string without its closing quote", 5)],
    ['{"a":', says("an end where a value should be", 5)],
    ['{"a":1}}', says("something after the end of the object", 7)],
    ['{"a":1 // one\n}', says("something other than a comma or } after a value", 7)],
    ["{'a':1}", says("something other than a key in quotes", 1)],
    ['{"a" 1}', says("something other than a colon after a key", 5)],
    ['{"a":[1 2]}', says("something other than a comma or ] after a value", 8)],
    ["{\"a\":'x'}", says("something that is not a JSON value", 5)],
    ['{"a":"\t"}', says("a control character inside a string", 6)],
    ['{"a":"\\x"}', says("an unknown escape inside a string", 6)],
    ['{"a":"\\u12g4"}', says("a \\u escape without four hexadecimal digits", 6)],
  ])("%s is refused with the place of the fault", (body, message) => expect(messageOf(body)).toBe(message));

  test("a message never repeats what the body holds", () => {
    const secret = "s3cret-value";
    for (const body of [`{"a":${secret}}`, `{"${secret}":1,"${secret}":2}`, `{"a":"${secret}`, secret]) {
      expect(messageOf(body)).toMatch(/ at byte \d+\.$/);
      expect(messageOf(body)).not.toContain(secret);
    }
  });
});

describe("depth", () => {
  test("64 levels pass, 65 do not", () => {
    expect(check(nested(MAX_DEPTH))).toBeNull();
    expect(messageOf(nested(MAX_DEPTH + 1))).toBe(says("more than 64 levels of objects and arrays", 68));
  });

  test("a caller may allow fewer levels, for that check alone", () => {
    const allowed = (levels: number) => checkJson(Buffer.from(nested(levels)), 32);
    expect(allowed(32)).toBeNull();
    expect(allowed(33)?.message).toBe(says("more than 32 levels of objects and arrays", 36));
    expect(check(nested(MAX_DEPTH))).toBeNull();
  });

  test("objects count like arrays", () => {
    const objects = (levels: number) => `${'{"a":'.repeat(levels)}0${"}".repeat(levels)}`;
    expect(check(objects(64))).toBeNull();
    expect(messageOf(objects(65))).toBe(says("more than 64 levels of objects and arrays", 320));
  });

  test("a million open brackets end in a fault, not in a stack overflow", () => {
    expect(messageOf(`{"a":${"[".repeat(1_000_000)}`)).toBe(
      says("more than 64 levels of objects and arrays", 68),
    );
  });

  test("siblings do not add up", () => expect(check(`{"a":[${"[[]],".repeat(100)}[]]}`)).toBeNull());
});

describe("duplicate keys", () => {
  test.each([
    ["in the body itself", '{"a":1,"a":2}', 7],
    ["in an inner object", '{"a":[{"b":1,"c":2,"b":3}]}', 19],
    ["after an inner object with the same keys", '{"a":{"a":1,"b":2},"b":1,"a":2}', 25],
    ["when empty", '{"":1,"":2}', 6],
    ["written with an escape first", '{"\\u0061":1,"a":2}', 12],
    ["written with an escape second", '{"a":1,"\\u0061":2}', 7],
    ["written with a short escape and a long one", '{"\\n":1,"\\u000A":2}', 8],
    ["beyond ASCII", '{"é":1,"\\u00e9":2}', 8],
    ["beyond the basic plane", '{"😀":1,"\\ud83d\\uDE00":2}', 10],
    ["with a solidus", '{"/":1,"\\/":2}', 7],
    ["named __proto__", '{"__proto__":1,"__proto__":2}', 15],
    ["longer than a native comparison needs", `{"${"k".repeat(40)}":1,"${"k".repeat(40)}":2}`, 46],
    ["longer than a digest needs", `{"${"k".repeat(2000)}":1,"\\u006b${"k".repeat(1999)}":2}`, 2006],
  ])("a key twice %s is refused", (_, body, at) => {
    expect(messageOf(body)).toBe(says("a duplicate key", at));
  });

  test.each([
    ["the same key in neighbouring objects", '{"a":[{"b":1},{"b":1}],"b":1}'],
    ["the same key one level down", '{"a":{"a":{"a":1}}}'],
    ["keys that differ in case", '{"a":1,"A":2}'],
    ["composed and decomposed letters", '{"\u00e9":1,"e\u0301":2}'],
    ["keys alike in length, ends and middle", '{"axxbxxc":1,"axybxxc":2}'],
    ["an escaped backslash and a letter", '{"\\\\u0061":1,"a":2}'],
    ["a key and the same as a value", '{"a":"b","b":"a"}'],
  ])("%s are different keys", (_, body) => expect(check(body)).toBeNull());

  // On both sides of the switch from comparing ranges to a set, every earlier key is still remembered.
  test.each([2, FEW_KEYS, FEW_KEYS + 1, FEW_KEYS + 2, 200])("each of %i keys is remembered", (count) => {
    const keys = numberedKeys(count);
    expect(check(withKeys(keys))).toBeNull();
    for (const key of keys) {
      expect(messageOf(withKeys([...keys, key]))).toContain("a duplicate key");
      const escaped = `"\\u006b${key.slice(2)}`;
      expect(messageOf(withKeys([...keys, escaped]))).toContain("a duplicate key");
    }
  });

  test("a key is not taken for a longer one that is remembered by its digest", () => {
    const long = "k".repeat(2000);
    const digest = createHash("sha256").update(long).digest("base64url");
    const keys = [...numberedKeys(FEW_KEYS), `"${long}"`];
    expect(check(withKeys([...keys, `"${digest}"`]))).toBeNull();
    expect(messageOf(withKeys([...keys, `"${long}"`]))).toContain("a duplicate key");
  });

  test("a deep object does not disturb the keys of those around it", () => {
    const inner = withKeys(numberedKeys(FEW_KEYS + 8));
    expect(check(`{"a":${inner},"b":{"c":${inner},"d":1},"k0":2}`)).toBeNull();
    expect(messageOf(`{"a":${inner},"b":{"c":${inner},"d":1},"a":2}`)).toContain("a duplicate key");
  });
});

describe("numbers", () => {
  test("integers pass beyond what JavaScript can hold", () => {
    expect(check('{"n":9007199254740993,"m":-123456789012345678901234567890}')).toBeNull();
  });

  test("4,300 digits pass, one more does not, whatever the sign", () => {
    for (const sign of ["", "-"]) {
      expect(check(`{"n":${sign}${"9".repeat(MAX_INTEGER_DIGITS)}}`)).toBeNull();
      expect(messageOf(`{"n":${sign}${"9".repeat(MAX_INTEGER_DIGITS + 1)}}`)).toBe(
        says("an integer of more than 4300 digits", 5),
      );
    }
  });

  test("fractions and exponents may be longer: Python reads them as floats", () => {
    const digits = "9".repeat(5000);
    expect(check(`{"a":${digits}.0,"b":0.${digits},"c":${digits}e1,"d":1e${digits}}`)).toBeNull();
  });

  test("1e400, -0 and 1E-400 are left to Python", () =>
    expect(check('{"a":1e400,"b":-0,"c":1E-400}')).toBeNull());

  test.each([
    ["NaN", says("NaN, which JSON does not have,", 5)],
    ["Infinity", says("Infinity, which JSON does not have,", 5)],
    ["-Infinity", says("-Infinity, which JSON does not have,", 5)],
  ])("%s is refused by name", (word, message) => expect(messageOf(`{"a":${word}}`)).toBe(message));
});

describe("text", () => {
  test.each(["\\ud800", "\\udc00", "\\uDBFF", "\\ud800x", "\\ud800\\n", "\\ud800\\ud800", "\\udc00\\ud800"])(
    "the lone surrogate escape %s is refused, in values and in keys",
    (escape) => {
      expect(messageOf(`{"a":"${escape}"}`)).toBe(says("a lone surrogate escape", 6));
      expect(messageOf(`{"${escape}":1}`)).toBe(says("a lone surrogate escape", 2));
    },
  );

  test("a surrogate pair passes; half of a second one does not", () => {
    expect(check('{"a":"\\ud83d\\ude00"}')).toBeNull();
    expect(messageOf('{"a":"\\ud83d\\ude00\\ude00"}')).toBe(says("a lone surrogate escape", 18));
  });

  test("NUL may stand in a string as an escape, not as a byte", () => {
    expect(check('{"a":"\\u0000"}')).toBeNull();
    expect(messageOf('{"a":"\0"}')).toBe(says("a control character inside a string", 6));
  });

  test.each<[string, number[]]>([
    ["a continuation byte alone", [0x80]],
    ["a sequence cut short", [0xe2, 0x82]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["an overlong NUL", [0xe0, 0x80, 0x80]],
    ["an encoded surrogate", [0xed, 0xa0, 0x80]],
    ["an encoded surrogate pair", [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ["a character past U+10FFFF", [0xf4, 0x90, 0x80, 0x80]],
    ["five continuation bytes", [0x80, 0x80, 0x80, 0x80, 0x80]],
    ["the byte 0xff", [0xff]],
    ["Latin-1", [0xe9]],
  ])("%s is refused, wherever it stands", (_, bytes) => {
    // Around the borders of the blocks in which the place is looked for.
    for (const before of [0, 1, 4085, 4086, 4087, 4088, 4089, 4090, 9000]) {
      for (const filler of ["x", "é"]) {
        const head = Buffer.from(`{"a":"${filler.repeat(before)}`);
        const body = Buffer.concat([head, Buffer.from(bytes), Buffer.from('"}')]);
        expect(messageOf(body)).toBe(says("bytes that are not UTF-8", head.length));
      }
    }
  });

  test("text of every width passes", () => expect(check('{"a":"aé水😀\u007f\u2028￿"}')).toBeNull());

  test("a byte order mark is refused", () =>
    expect(messageOf('\uFEFF{"a":1}')).toBe(says("a byte order mark", 0)));

  test.each(["utf16le", "UTF-16 with its mark", "UTF-32"])("%s is refused", (encoding) => {
    const text = '{"a":1}';
    const wide = {
      utf16le: Buffer.from(text, "utf16le"),
      "UTF-16 with its mark": Buffer.from(`\uFEFF${text}`, "utf16le"),
      "UTF-32": Buffer.from(Uint32Array.from(Buffer.from(text)).buffer),
    }[encoding];
    expect(wide && check(wide)).toHaveProperty("message");
  });
});

describe("names that are dangerous elsewhere", () => {
  test("they are plain data", () => {
    const body = '{"__proto__":{"polluted":1},"constructor":{"prototype":{}},"toString":1,"length":2}';
    expect(check(body)).toBeNull();
    expect(check(withKeys([...numberedKeys(40), '"__proto__"', '"hasOwnProperty"']))).toBeNull();
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("large bodies", () => {
  /** Of this thread's processor, and the best of three: neither other processes nor the garbage of other tests count. */
  const spentMs = (work: () => void): number => {
    const tries = Array.from({ length: 3 }, () => {
      const before = process.threadCpuUsage();
      work();
      return process.threadCpuUsage(before).user / 1000;
    });
    return Math.min(...tries);
  };
  const spentOn = (body: Buffer): number => spentMs(() => expect(checkJson(body)).toBeNull());

  test("the time for many keys grows with their number, not with its square", () => {
    const text = withKeys(numberedKeys(100_000));
    // A parser keeps them in a table: twice its time, and two hundred times if each were compared with each.
    const parsedMs = spentMs(() => void JSON.parse(text));
    expect(spentOn(Buffer.from(text))).toBeLessThan(20 * parsedMs);
  });

  test("long keys of one length do not collide", () => {
    const stem = "k".repeat(17_000);
    const long = Array.from({ length: 1500 }, (_, i) => `"${stem}${1000 + i}"`);
    // Twice the time of the same texts as values; by V8's own hash of such keys eighty times.
    const asValues = spentOn(Buffer.from(`{"a":[${long.join(",")}]}`));
    expect(spentOn(Buffer.from(withKeys(long)))).toBeLessThan(15 * asValues);
  });

  test("an array of a million elements passes", () => {
    expect(check(`{"a":[${"1,".repeat(999_999)}1]}`)).toBeNull();
  });
});
