import { expect, test } from "vitest";
import { valueOf, type ValueParts, WHOLE_BYTES } from "../../../../src/runs/batches/result-value.ts";
import { samplePayload, sampleRun } from "../../../support/sample-run.ts";

const JSON_TYPE = "application/json";

/** What the results tell of a response of those bytes; large ones are read in pieces. */
async function told(body: Buffer | string, contentType: string, functionName = "/v1/x", isGone = false) {
  const bytes = Buffer.from(body);
  const isLarge = bytes.length > WHOLE_BYTES;
  let reads = 0;
  const parts = {
    store: {
      payloads: {
        resultPart: async (part: { from: number; bytes: number }) => {
          reads += 1;
          return isGone ? null : bytes.subarray(part.from, part.from + part.bytes);
        },
      },
    },
    large: null,
  } as unknown as ValueParts;
  const run = sampleRun({ functionName });
  const payload = samplePayload({ result: isLarge ? null : bytes, contentType });
  const value = await valueOf(parts, { run, payload, bytes: bytes.length });
  if (!value) return null;
  let size = 0;
  const pieces: Buffer[] = [];
  for await (const piece of value.pieces) {
    pieces.push(piece);
    size = Math.max(size, piece.length);
  }
  const text = Buffer.concat(pieces).toString();
  return { text, json: JSON.parse(text), isBase64: value.isBase64, largest: size, reads };
}

test("a server's JSON is told as it is, in one line", async () => {
  const pretty = '{\r\n  "n": 12345678901234567890\n}';
  expect(await told(pretty, `${JSON_TYPE}; charset=utf-8`)).toMatchObject({
    text: '{    "n": 12345678901234567890 }',
    isBase64: false,
  });
});

test("its text is a string, as is what only calls itself JSON", async () => {
  expect(await told('a "ä"\n', "text/plain")).toMatchObject({ json: 'a "ä"\n', isBase64: false });
  expect(await told('{"a":1}', "text/html")).toMatchObject({ json: '{"a":1}' });
  expect(await told('{"a":', JSON_TYPE)).toMatchObject({ json: '{"a":' });
  expect(await told("", JSON_TYPE)).toMatchObject({ json: "" });
});

test("other bytes are base64", async () => {
  const bytes = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1]);
  expect(await told(bytes, "image/jpeg")).toMatchObject({ json: bytes.toString("base64"), isBase64: true });
  // A character that is cut off.
  expect(await told(Buffer.from("é").subarray(0, 1), "text/plain")).toMatchObject({ isBase64: true });
});

test("a response of any size is told whole, in pieces of bounded size", async () => {
  const long = "é€😀\n".repeat(900_000);
  const text = await told(long, "text/plain");
  expect(text?.json === long).toBe(true);
  expect(text?.largest).toBeLessThan(1024 * 1024);
  expect(text?.reads).toBeGreaterThan(4);
  const list = `[${'"é",\n'.repeat(1_500_000)}0]`;
  const json = await told(list, JSON_TYPE);
  expect(json?.text === list.replaceAll("\n", " ")).toBe(true);
  const bytes = Buffer.alloc(WHOLE_BYTES + 2, 0xfe);
  const binary = await told(bytes, "image/png");
  expect([binary?.json === bytes.toString("base64"), binary?.isBase64]).toEqual([true, true]);
  expect(await told(list, JSON_TYPE, "/v1/x", true)).toBeNull();
});

test("of a function's, the envelope is left out, however large it is", async () => {
  for (const result of ['"small"', `"${"x".repeat(WHOLE_BYTES)}"`]) {
    const body = `{"run_id":"${"0".repeat(36)}","result":${result},"run_time_ms":12.25}`;
    expect((await told(body, JSON_TYPE, "run"))?.text === result).toBe(true);
  }
});
