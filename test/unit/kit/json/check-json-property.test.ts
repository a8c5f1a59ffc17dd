import * as fc from "fast-check";
import { expect, test, vi } from "vitest";
import { checkJson } from "../../../../src/kit/json/check-json.ts";

// Thousands of random bodies, on a machine that may be busy with other suites.
vi.setConfig({ testTimeout: 30_000 });

/** The same rules, written another way: JSON.parse for the grammar, then a walk over the tokens. */
function isAcceptable(body: Buffer): boolean {
  if (body.length === 0) return true;
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    value = JSON.parse(text);
  } catch {
    return false;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const open: Set<string>[] = [];
  const tokens = [...text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g)].map(([token]) => token);
  for (const [i, token] of tokens.entries()) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (token.startsWith('"')) {
      const string = JSON.parse(token) as string;
      if (!string.isWellFormed()) return false;
      if (tokens[i + 1] === ":") {
        if (open.at(-1)?.has(string)) return false;
        open.at(-1)?.add(string);
      }
    } else if (/^-?\d{4301,}$/.test(token)) return false;
    if (open.length > 64) return false;
  }
  return true;
}

const space = fc.constantFrom("", "", "", " ", "\n", "\r\n\t", "   ");
const hex4 = fc
  .oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd800, max: 0xdfff }), fc.constant(0x61))
  .map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`);
const piece = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text).slice(1, -1)) },
  { weight: 2, arbitrary: fc.constantFrom("\\n", '\\"', "\\\\", "\\/", "\\b", "\u007f", "\u2028", "a") },
  { weight: 1, arbitrary: fc.constant("\\uD83D\\ude00") },
  { weight: 1, arbitrary: hex4 },
);
const string = fc.array(piece, { maxLength: 4 }).map((pieces) => `"${pieces.join("")}"`);
/** From a few names in several spellings, so that repeats are common. */
const key = fc.oneof(
  { weight: 3, arbitrary: string },
  {
    weight: 1,
    arbitrary: fc.constantFrom('"a"', '"\\u0061"', '"b"', '""', '"é"', '"\\u00E9"', '"__proto__"'),
  },
);
const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => JSON.stringify(n)),
  fc.bigInt().map(String),
  fc.constantFrom("-0", "0.10", "1E+5", "1e400", "9".repeat(4300), "9".repeat(4301), `${"9".repeat(4301)}e0`),
);
const spaced = (token: fc.Arbitrary<string>) => fc.tuple(space, token, space).map((parts) => parts.join(""));
const { object } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom("true", "false", "null"),
    number,
    string,
    tie("object"),
    tie("array"),
  ),
  array: fc.array(spaced(tie("value")), { maxLength: 5 }).map((values) => `[${values.join(",")}]`),
  object: fc
    .array(fc.tuple(spaced(key), spaced(tie("value"))), { maxLength: 5 })
    .map((pairs) => `{${pairs.map((pair) => pair.join(":")).join(",")}}`),
}));
const deepObject = fc
  .tuple(fc.array(fc.constantFrom("[", '{"a":'), { minLength: 55, maxLength: 70 }), object)
  .map(([opens, inner]) => {
    const closes = opens.map((open) => (open === "[" ? "]" : "}")).toReversed();
    return `{"a":${opens.join("")}${inner}${closes.join("")}}`;
  });
const text = spaced(fc.oneof({ weight: 9, arbitrary: object }, { weight: 1, arbitrary: deepObject }));

/** Bytes with a meaning in JSON or in UTF-8, and any other. */
const byte = fc.oneof(
  fc.constantFrom(
    ...Buffer.from('{}[]:,"\\ue-+.019tfn \n\0\x1f'),
    0x7f,
    0x80,
    0xbf,
    0xc3,
    0xed,
    0xa0,
    0xf0,
    0xff,
  ),
  fc.integer({ min: 0, max: 255 }),
);
const mutation = fc.record({
  kind: fc.constantFrom("replace", "insert", "delete", "repeat", "cut"),
  place: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  byte,
});
const mutated = fc
  .tuple(text, fc.array(mutation, { minLength: 1, maxLength: 3 }))
  .map(([whole, mutations]) => {
    let bytes = [...Buffer.from(whole)];
    for (const { kind, place, byte } of mutations) {
      const at = Math.floor(place * bytes.length);
      if (kind === "replace") bytes[at] = byte;
      else if (kind === "insert") bytes.splice(at, 0, byte);
      else if (kind === "delete") bytes.splice(at, 1);
      else if (kind === "repeat") bytes.splice(at, 0, ...bytes.slice(at, at + 6));
      else bytes = bytes.slice(0, at);
    }
    return Buffer.from(bytes);
  });

function agrees(body: Buffer): void {
  expect(checkJson(body) === null, `accepts ${body.toString("latin1")}`).toBe(isAcceptable(body));
}

test("random objects pass exactly when the reference accepts them", () => {
  fc.assert(
    fc.property(text, (whole) => agrees(Buffer.from(whole))),
    { numRuns: 800 },
  );
});

test("randomly damaged bodies pass exactly when the reference accepts them", () => {
  fc.assert(fc.property(mutated, agrees), { numRuns: 1500 });
});

test("random bytes pass exactly when the reference accepts them", () => {
  const bytes = fc.array(byte, { maxLength: 12 }).map((inner) => Buffer.from([0x7b, ...inner, 0x7d]));
  fc.assert(fc.property(bytes, agrees), { numRuns: 1500 });
});

test("the place of a fault lies within the body or at its end", () => {
  fc.assert(
    fc.property(mutated, (body) => {
      const at = / at byte (\d+)\.$/.exec(checkJson(body)?.message ?? " at byte 0.")?.[1];
      expect(Number(at)).toBeLessThanOrEqual(body.length);
    }),
    { numRuns: 1000 },
  );
});

test.each([
  ["random objects", text.map((whole) => Buffer.from(whole))],
  ["damaged bodies", mutated],
])("the %s hold enough of both kinds to tell", (_, bodies) => {
  const accepted = fc.sample(bodies, { numRuns: 500, seed: 1 }).filter(isAcceptable).length;
  expect(accepted).toBeGreaterThan(50);
  expect(accepted).toBeLessThan(450);
});
