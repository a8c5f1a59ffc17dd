import { expect, test } from "vitest";
import { parseFailure } from "../../../src/replicas/messages.ts";
import { verifies } from "../../verifies.ts";
import { BadFrame, WIRE_LIMITS } from "../../../src/engines/protocol.ts";
import { parseHello, parseInitFailure } from "../../../src/engines/hello.ts";
import { parseTemplateMessage } from "../../../src/engines/templates/template.ts";

const PARAMETER = { name: "n", kind: "named", required: true, annotation: "int", default: null };
const RUN = {
  name: "run",
  parameters: [PARAMETER],
  is_async: false,
  is_generator: true,
  wants_run_id: false,
  doc: null,
};

function functionsOf(run: object): unknown {
  const hello = { pid: 1, python: "3.11.7", functions: [run] };
  return parseHello(Buffer.from(JSON.stringify(hello))).functions;
}

const SILENT = [
  {
    name: "run",
    parameters: [{ ...PARAMETER, schema: {} }],
    isAsync: false,
    isGenerator: true,
    wantsRunId: false,
    doc: null,
    streams: true,
    returns: {},
  },
];

test("a hello without schemas is one whose hints say nothing", () => {
  expect(functionsOf(RUN)).toEqual(SILENT);
});

test("a schema that is none says nothing, and costs no replica", () => {
  for (const schema of [null, 5, "text", [1]]) {
    const parameters = [{ ...PARAMETER, schema }];
    expect(functionsOf({ ...RUN, parameters, returns: schema })).toEqual(SILENT);
  }
});

test("schemas come as they were told", () => {
  const schema = { $ref: "#/$defs/A", $defs: { A: { type: "object", properties: { x: {} } } } };
  const told = { ...RUN, parameters: [{ ...PARAMETER, schema }], returns: schema, streams: false };
  expect(functionsOf(told)).toMatchObject([{ parameters: [{ schema }], returns: schema, streams: false }]);
});

/** What a FAILED frame of these fields is read as. */
function failureOf(fields: object): unknown {
  return parseFailure(Buffer.from(JSON.stringify(fields)));
}

const RAISED = { kind: "raised", code: "app_error", message: "m", traceback: "t", run_ms: 1 };

verifies(
  "wire.fields.cut",
  "a message keeps its beginning, a traceback its end, and both say that they were cut",
  () => {
    const { messageChars, tracebackChars } = WIRE_LIMITS;
    const [message, traceback] = ["m".repeat(messageChars), "t".repeat(tracebackChars)];
    expect(failureOf({ ...RAISED, message, traceback })).toMatchObject({ message, traceback });
    expect(failureOf({ ...RAISED, message: `${message}x`, traceback: `x${traceback}` })).toMatchObject({
      message: `${message} [millrace: cut]`,
      traceback: `[millrace: cut]\n${traceback}`,
    });
    const unsendable = { kind: "unsendable", code: "result_not_json", message: `${message}x`, run_ms: 1 };
    expect(failureOf(unsendable)).toMatchObject({ message: `${message} [millrace: cut]` });
    const failed = { message: `${message}x`, traceback: `x${traceback}` };
    const expected = { message: `${message} [millrace: cut]`, traceback: `[millrace: cut]\n${traceback}` };
    expect(parseInitFailure(Buffer.from(JSON.stringify(failed)))).toEqual(expected);
    expect(parseTemplateMessage(Buffer.from(JSON.stringify({ failed })))).toEqual({ failed: expected });
  },
);

verifies("wire.fields", "what is no field of its kind, or beyond its bound, is not read", () => {
  const many = <T>(count: number, value: T): T[] => Array(count).fill(value) as T[];
  const hello = { pid: 1, python: "3.11.7", functions: [RUN] };
  const bad: [(payload: Buffer) => unknown, object][] = [
    [parseHello, { ...hello, pid: 0 }],
    [parseHello, { ...hello, pid: 1.5 }],
    [parseHello, { ...hello, pid: 2 ** 30 }],
    [parseHello, { ...hello, pid: "1" }],
    [parseHello, { ...hello, python: "x".repeat(33) }],
    [parseHello, { ...hello, functions: many(WIRE_LIMITS.functions + 1, RUN) }],
    [parseHello, { ...hello, functions: [{ ...RUN, name: "" }] }],
    [parseHello, { ...hello, functions: [{ ...RUN, name: "x".repeat(WIRE_LIMITS.nameChars + 1) }] }],
    [parseHello, { ...hello, functions: [{ ...RUN, doc: "x".repeat(WIRE_LIMITS.noteChars + 1) }] }],
    [
      parseHello,
      { ...hello, functions: [{ ...RUN, parameters: many(WIRE_LIMITS.parameters + 1, PARAMETER) }] },
    ],
    [parseHello, { ...hello, functions: [{ ...RUN, parameters: [{ ...PARAMETER, kind: "other" }] }] }],
    [parseFailure, { ...RAISED, run_ms: -1 }],
    [parseFailure, { ...RAISED, run_ms: WIRE_LIMITS.runMs + 1 }],
    [parseFailure, { ...RAISED, run_ms: null }],
    [parseFailure, { ...RAISED, code: "internal" }],
    [parseFailure, { ...RAISED, kind: "fine" }],
    [
      parseFailure,
      { kind: "misfit", details: many(WIRE_LIMITS.misfits + 1, { field: "a", problem: "missing" }) },
    ],
    [parseFailure, { kind: "misfit", details: [{ field: "a".repeat(300), problem: "missing" }] }],
    [parseFailure, { kind: "misfit", details: [{ field: "a", problem: "odd" }] }],
    [parseFailure, { kind: "misfit", details: [], more: -1 }],
    [parseTemplateMessage, { exited: { id: "r-one", code: 256 } }],
    [parseTemplateMessage, { exited: { id: "r-one", code: -1 } }],
    [parseTemplateMessage, { ready: { pid: 1, forks: "yes", reason: null, functions: [] } }],
    [parseTemplateMessage, { ready: { pid: 1, forks: true, reason: "x".repeat(1_001), functions: [] } }],
  ];
  for (const [parse, value] of bad) {
    expect(() => parse(Buffer.from(JSON.stringify(value)))).toThrow(BadFrame);
  }
  const most = {
    ...hello,
    functions: many(WIRE_LIMITS.functions, { ...RUN, parameters: many(10, PARAMETER) }),
  };
  expect(parseHello(Buffer.from(JSON.stringify(most))).functions).toHaveLength(WIRE_LIMITS.functions);
});

verifies("wire.fields", "schemas have so many values inside them, of a function and of all", () => {
  const { schemaValues, appSchemaValues } = WIRE_LIMITS;
  // The list itself is a value too.
  const schema = (values: number) => ({ enum: Array(values - 1).fill("x") });
  const half = { ...RUN, parameters: [{ ...PARAMETER, schema: schema(schemaValues / 2) }] };
  const full = { ...half, returns: schema(schemaValues / 2) };
  expect(functionsOf(full)).toMatchObject([{ returns: full.returns }]);
  expect(() => functionsOf({ ...half, returns: schema(schemaValues / 2 + 1) })).toThrow(
    'HELLO that cannot be read: schemas of more than 5000 values at "functions.0"',
  );
  const hello = (functions: object[]) =>
    parseHello(Buffer.from(JSON.stringify({ pid: 1, python: "3.11.7", functions })));
  const all = Array.from({ length: appSchemaValues / schemaValues }, () => full);
  expect(hello(all).functions).toHaveLength(all.length);
  expect(() => hello([...all, { ...RUN, returns: schema(1) }])).toThrow(
    'HELLO that cannot be read: schemas of more than 20000 values in all at "functions"',
  );
  const deep = JSON.parse(`${'{"a":'.repeat(1_900)}1${"}".repeat(1_900)}`) as object;
  expect(functionsOf({ ...RUN, returns: deep })).toHaveLength(1);
});

test("what is nested too deep is not even parsed, and what a fault says holds nothing of what was sent", () => {
  const deep = (levels: number) => Buffer.from(`${"[".repeat(levels)}${"]".repeat(levels)}`);
  expect(() => parseHello(deep(WIRE_LIMITS.depth + 1))).toThrow("HELLO that is not JSON");
  expect(() => parseHello(deep(WIRE_LIMITS.depth))).toThrow("HELLO that cannot be read");
  const secret = { pid: "hush-hush", "hush-hush": 1, functions: [{ "hush-hush": 2, name: ["hush-hush"] }] };
  const read = (): unknown => parseHello(Buffer.from(JSON.stringify(secret)));
  expect(read).toThrow(BadFrame);
  expect(read).not.toThrow(/hush/);
});
