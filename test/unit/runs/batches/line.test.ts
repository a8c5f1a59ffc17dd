import { describe, expect, test } from "vitest";
import { NO_WISHES } from "../../../../src/model/wishes.ts";
import { readLine, TOO_LONG } from "../../../../src/runs/batches/line.ts";

const NOW = Date.UTC(2027, 0, 1);
const read = (text: string) => readLine(Buffer.from(text), null, NOW);
const faultOf = (text: string): string => {
  const line = read(text);
  return "fault" in line ? `${line.fault.code}: ${line.fault.message}` : "none";
};

test("a line has an input, an id, and what it asks of the queue", () => {
  expect(read('{"id":"a\\u00e9","input":{"n": 1}}')).toEqual({
    label: '"aé"',
    input: Buffer.from('{"n": 1}'),
    wishes: null,
  });
  expect(read('{"id":-7}')).toEqual({ label: "-7", input: Buffer.from("{}"), wishes: null });
  expect(read('{"id":null,"priority":"high","maxAttempts":3,"tag":"t","ttl":null}')).toMatchObject({
    label: null,
    wishes: { priority: 600, maxAttempts: 3, tags: ["t"], ttlMs: null },
  });
});

test("what a line does not ask is as for the whole batch, and its tags are added", () => {
  const rest = {
    ...NO_WISHES,
    priority: 5,
    ttlMs: 7,
    maxAttempts: 2,
    tags: ["all"],
    fairnessKey: "customer",
  };
  const line = (text: string) => readLine(Buffer.from(text), rest, NOW);
  expect(line("{}")).toMatchObject({ wishes: rest });
  expect(line('{"tag":["a","all"],"priority":0}')).toMatchObject({
    wishes: { ...rest, priority: 0, tags: ["all", "a"] },
  });
});

describe("a line that cannot be a call", () => {
  test.each([
    ["nothing", "invalid_json"],
    ["[]", "invalid_json"],
    ['{"input":{"a":1,"a":2}}', "invalid_json"],
    ['{"input":{"a":"\\ud800"}}', "invalid_json"],
    ['{"input":[]}', "bad_request: Input must be an object."],
    ['{"input":null}', "bad_request: Input must be an object."],
    ['{"id":1.5}', "bad_request: Id must be"],
    [`{"id":"${"x".repeat(257)}"}`, "bad_request: Id must be"],
    ['{"prompt":"a cat"}', 'bad_request: The line has an unknown member "prompt"'],
    ['{"__proto__":{}}', 'bad_request: The line has an unknown member "__proto__"'],
    ['{"priority":{}}', "bad_request: Priority must be"],
    ['{"priority":99999}', "bad_request: priority must be"],
    ['{"delay":"60d"}', "bad_request: delay must be"],
    ['{"tag":[1]}', "bad_request: Tag must be"],
    ['{"tag":["1","2","3","4","5","6"]}', "bad_request: tag must be"],
    ['{"max_attempts":1,"maxAttempts":2}', "bad_request: maxAttempts must be given only once"],
    [TOO_LONG.toString(), "body_too_large"],
  ])("%s", (text, fault) => {
    expect(faultOf(text)).toContain(fault);
  });

  test("has bad UTF-8", () => {
    expect(readLine(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), null, NOW)).toMatchObject({
      fault: { code: "invalid_json" },
    });
  });

  test("keeps its id where that can be read", () => {
    expect(read('{"id":"x","input":1}')).toMatchObject({ label: '"x"', fault: { code: "bad_request" } });
  });
});

test("an input may be as deep as that of a call", () => {
  const nested = (depth: number): string => `{"input":{"a":${"[".repeat(depth)}${"]".repeat(depth)}}}`;
  expect(faultOf(nested(63))).toBe("none");
  expect(faultOf(nested(64))).toContain("invalid_json");
});
