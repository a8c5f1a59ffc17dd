import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FRAME, INITIAL_CREDIT_BYTES, LARGE_BYTES } from "../../../src/replicas/frames.ts";
import { parseFailure, WireInbox } from "../../../src/replicas/wire-inbox.ts";
import { HELLO } from "../../support/hostile/cases.ts";
import { frame } from "../../support/hostile/mutate.ts";
import { verifies } from "../../verifies.ts";
import { callsInHand } from "./calls-in-hand.ts";
import { BadFrame, parseHello, parseInitFailure, WIRE_LIMITS } from "../../../src/engines/protocol.ts";
import { parseTemplateMessage } from "../../../src/engines/templates/template.ts";

const LIMITS = { maxResultBytes: 2 * LARGE_BYTES, maxChunkBytes: LARGE_BYTES + 100 };
const MS = Buffer.alloc(8);
const hello = frame(FRAME.HELLO, 0, JSON.stringify(HELLO));

function result(callId: number, json: string, status = 0, ms = 1.5): Buffer {
  const head = Buffer.alloc(10);
  head.writeDoubleLE(ms);
  head.writeUInt16LE(status, 8);
  return frame(FRAME.RESULT, callId, Buffer.concat([head, Buffer.from(json)]));
}

function chunk(callId: number, text: string, kind = 1): Buffer {
  return frame(FRAME.CHUNK, callId, Buffer.concat([Buffer.from([kind]), Buffer.from(text)]));
}

/** An inbox with calls 1 to 3 in hand, and what came of what it was given. */
function inboxWithCalls() {
  const calls = callsInHand();
  const told: string[] = [];
  const inbox = new WireInbox(calls, LIMITS, {
    onHello: ({ functions }) => told.push(`hello ${functions.length}`),
    onInitFailure: ({ message }) => told.push(`init failed ${message}`),
    onStream: ({ wireId }) => told.push(`stream ${wireId}`),
    onChunk: ({ wireId }, { isText, bytes }) =>
      told.push(`${isText ? "text" : "json"} ${wireId} ${bytes.length}`),
    onCheckpoint: ({ wireId }, value) => told.push(`checkpoint ${wireId} ${value.toString()}`),
    onProgress: ({ wireId }, { fraction, message }) => told.push(`progress ${wireId} ${fraction} ${message}`),
    onOutcome: ({ wireId }, outcome) => {
      calls.delete(wireId);
      told.push(`${"code" in outcome ? outcome.code : outcome.kind} ${wireId}`);
    },
  });
  return { inbox, calls, told };
}

/** What an inbox says to frames that come after hello. */
function after(...frames: Buffer[]): string[] {
  const { inbox, told } = inboxWithCalls();
  inbox.push(hello);
  told.length = 0;
  try {
    for (const each of frames) inbox.push(each);
  } catch (error) {
    if (!(error instanceof BadFrame)) throw error;
    told.push(`bad: ${error.message}`);
  }
  return told;
}

/** What a replica may do, written down again in another way: by what it has done. */
class Model {
  hasGreeted = false;
  hasFailed = false;
  readonly streams = new Map<number, number>();
  readonly over = new Set<number>();
  readonly checkpointing = new Set<number>();

  isLegal({ type, callId }: { type: number; callId: number }): boolean {
    if (type === FRAME.HELLO || type === FRAME.INIT_FAILED) {
      const isLegal = callId === 0 && !this.hasGreeted && !this.hasFailed;
      if (isLegal && type === FRAME.HELLO) this.hasGreeted = true;
      if (isLegal && type === FRAME.INIT_FAILED) this.hasFailed = true;
      return isLegal;
    }
    if (!this.hasGreeted || callId < 1 || callId > 3 || this.over.has(callId)) return false;
    const left = this.streams.get(callId);
    if (type === FRAME.STREAM && left === undefined) this.streams.set(callId, INITIAL_CREDIT_BYTES);
    else if (type === FRAME.CHUNK && left !== undefined && left > 0)
      this.streams.set(callId, left - CHUNK_COST);
    else if (type === FRAME.FAILED || (type === FRAME.RESULT && left === undefined)) this.over.add(callId);
    else if (type === FRAME.END && left !== undefined) this.over.add(callId);
    else if (type === FRAME.CHECKPOINT && !this.checkpointing.has(callId)) this.checkpointing.add(callId);
    else if (type === FRAME.PROGRESS) return true;
    else return false;
    return true;
  }
}

const BIG = JSON.stringify("x".repeat(20_000));
const CHUNK_COST = chunk(1, BIG).length;

/** A well-formed frame of that type. */
function sample(type: number, callId: number): Buffer {
  switch (type) {
    case FRAME.HELLO:
      return frame(type, callId, JSON.stringify(HELLO));
    case FRAME.INIT_FAILED:
      return frame(type, callId, JSON.stringify({ message: "m", traceback: "t" }));
    case FRAME.RESULT:
      return result(callId, "1");
    case FRAME.FAILED:
      return frame(type, callId, JSON.stringify({ kind: "no_function" }));
    case FRAME.CHUNK:
      return chunk(callId, BIG);
    case FRAME.END:
    case FRAME.PROGRESS:
      return frame(type, callId, MS);
    case FRAME.CHECKPOINT:
      return frame(type, callId, "1");
    default:
      return frame(type, callId);
  }
}

verifies("wire.order", "any order of well-formed frames is taken exactly as far as it is legal", () => {
  const step = fc.record({
    type: fc.constantFrom(...Object.values(FRAME), 0, 99),
    callId: fc.constantFrom(0, 1, 1, 1, 2, 3, 4),
  });
  // Begun as a harness would, so that most runs get somewhere.
  const begun = fc
    .array(step, { maxLength: 20 })
    .map((steps) => [{ type: FRAME.HELLO, callId: 0 }, ...steps]);
  fc.assert(
    fc.property(
      fc.oneof({ weight: 1, arbitrary: fc.array(step, { maxLength: 6 }) }, { weight: 5, arbitrary: begun }),
      (steps) => {
        const { inbox } = inboxWithCalls();
        const model = new Model();
        for (const each of steps) {
          const isLegal = model.isLegal(each);
          const push = () => inbox.push(sample(each.type, each.callId));
          if (isLegal) push();
          else {
            expect(push).toThrow(BadFrame);
            return;
          }
        }
      },
    ),
    { numRuns: 3_000 },
  );
});

const progress = (callId: number, fraction: number, text: string | Buffer = ""): Buffer => {
  const head = Buffer.alloc(8);
  head.writeDoubleLE(fraction);
  return frame(FRAME.PROGRESS, callId, Buffer.concat([head, Buffer.from(text)]));
};
const checkpoint = (callId: number, json: string): Buffer => frame(FRAME.CHECKPOINT, callId, json);

verifies("checkpoint.hostile", "checkpoints and progress within their bounds are taken", () => {
  const most = JSON.stringify("x".repeat(WIRE_LIMITS.checkpointBytes - 2));
  expect(after(checkpoint(1, most), checkpoint(2, "null"), result(1, "1"))).toEqual([
    `checkpoint 1 ${most}`,
    "checkpoint 2 null",
    "returned 1",
  ]);
  const long = "x".repeat(WIRE_LIMITS.progressBytes);
  expect(after(progress(1, 0.5, "half"), progress(1, Number.NaN), progress(1, 1, long))).toEqual([
    "progress 1 0.5 half",
    "progress 1 null null",
    `progress 1 1 ${long}`,
  ]);
});

verifies("checkpoint.hostile", "others end the process", () => {
  const { checkpointBytes, progressBytes } = WIRE_LIMITS;
  const tooLong = checkpoint(1, "1".repeat(checkpointBytes + 1));
  expect(after(tooLong)).toEqual([`bad: a CHECKPOINT of ${checkpointBytes + 1} bytes`]);
  expect(after(checkpoint(1, ""))).toEqual(["bad: a CHECKPOINT of 0 bytes"]);
  expect(after(checkpoint(1, "{"))).toEqual(["bad: a CHECKPOINT that is not JSON"]);
  expect(after(frame(FRAME.CHECKPOINT, 1, Buffer.from([34, 0xff, 34])))).toEqual([
    "bad: a CHECKPOINT that is not JSON",
  ]);
  expect(after(checkpoint(1, "1"), checkpoint(1, "2"))).toEqual([
    "checkpoint 1 1",
    "bad: a CHECKPOINT before the answer to the last one",
  ]);
  expect(after(checkpoint(9, "1"))).toEqual(["bad: CHECKPOINT for no call"]);
  expect(after(result(1, "1"), checkpoint(1, "1"))).toEqual(["returned 1", "bad: CHECKPOINT for no call"]);
  expect(after(result(1, "1"), progress(1, 1))).toEqual(["returned 1", "bad: PROGRESS for no call"]);
  for (const fraction of [-0.1, 1.1, Number.POSITIVE_INFINITY])
    expect(after(progress(1, fraction))).toEqual([`bad: a PROGRESS of ${fraction}`]);
  expect(after(progress(1, 1, Buffer.from([0xff])))).toEqual(["bad: a PROGRESS that is not UTF-8"]);
  const bytes = progressBytes + 9;
  expect(after(progress(1, 1, "x".repeat(progressBytes + 1)))).toEqual([`bad: a PROGRESS of ${bytes} bytes`]);
  const before = inboxWithCalls();
  expect(() => before.inbox.push(checkpoint(1, "1"))).toThrow("CHECKPOINT before HELLO");
  const batched = inboxWithCalls();
  batched.inbox.push(hello);
  batched.calls.get(1)!.isStepped = true;
  expect(() => batched.inbox.push(checkpoint(1, "1"))).toThrow("a CHECKPOINT of a batched call");
});

test("each way through a call, and each way out of it", () => {
  expect(after(result(1, "1"))).toEqual(["returned 1"]);
  const stream = frame(FRAME.STREAM, 2);
  expect(after(stream, chunk(2, "[1]"), chunk(2, "any", 0), frame(FRAME.END, 2, MS))).toEqual([
    "stream 2",
    "json 2 3",
    "text 2 3",
    "streamed 2",
  ]);
  expect(after(stream, stream)).toEqual(["stream 2", "bad: STREAM out of turn"]);
  expect(after(chunk(2, "1"))).toEqual(["bad: CHUNK out of turn"]);
  expect(after(stream, result(2, "1"))).toEqual(["stream 2", "bad: RESULT out of turn"]);
  expect(after(result(1, "1"), result(1, "1"))).toEqual(["returned 1", "bad: RESULT for no call"]);
  expect(after(frame(FRAME.CANCELLED, 1))).toEqual(["bad: CANCELLED for a call that was not cancelled"]);
  expect(after(frame(FRAME.INIT_FAILED, 0, "{}"))).toEqual(["bad: INIT_FAILED out of turn"]);
});

test("a call that was cancelled may say so", () => {
  const { inbox, calls, told } = inboxWithCalls();
  inbox.push(hello);
  calls.get(2)!.isCancelled = true;
  inbox.push(frame(FRAME.CANCELLED, 2));
  expect(told.at(-1)).toBe("cancelled 2");
});

verifies("wire.order", "a chunk of any size may come while credit is left, and none after that", () => {
  const stream = frame(FRAME.STREAM, 1);
  const text = chunk(1, "x".repeat(INITIAL_CREDIT_BYTES - 11), 0);
  expect(after(stream, text, chunk(1, "y".repeat(LARGE_BYTES), 0), chunk(1, "", 0))).toEqual([
    "stream 1",
    `text 1 ${INITIAL_CREDIT_BYTES - 11}`,
    `text 1 ${LARGE_BYTES}`,
    "bad: a CHUNK beyond its credit",
  ]);
  const { inbox, calls } = inboxWithCalls();
  inbox.push(hello);
  inbox.push(stream);
  inbox.push(chunk(1, "x".repeat(INITIAL_CREDIT_BYTES), 0));
  calls.get(1)!.creditBytes += 100;
  expect(() => inbox.push(chunk(1, "x", 0))).not.toThrow();
});

verifies("wire.limits", "each type has its limit, and is refused at its head", () => {
  const head = (type: number, length: number) =>
    frame(type, type === FRAME.HELLO || type === FRAME.INIT_FAILED ? 0 : 1, "", length);
  const most: [number, number][] = [
    [FRAME.RESULT, LIMITS.maxResultBytes + 10],
    [FRAME.FAILED, WIRE_LIMITS.failedBytes],
    [FRAME.STREAM, 0],
    [FRAME.END, 8],
  ];
  for (const [type, bytes] of most) {
    if (type !== FRAME.END)
      expect([type, after(head(type, bytes))]).toEqual([type, type === FRAME.STREAM ? ["stream 1"] : []]);
    expect(after(head(type, bytes + 1))[0]).toMatch(/^bad: /);
  }
  const stream = frame(FRAME.STREAM, 1);
  expect(after(stream, head(FRAME.CHUNK, LIMITS.maxChunkBytes + 1))).toEqual(["stream 1"]);
  expect(after(stream, head(FRAME.CHUNK, LIMITS.maxChunkBytes + 2))[1]).toMatch(/^bad: a CHUNK of/);
  expect(after(stream, head(FRAME.CHUNK, 0))[1]).toMatch(/^bad: a CHUNK of 0/);
  expect(after(head(FRAME.RESULT, 9))[0]).toMatch(/^bad: a RESULT of 9/);
  const { inbox } = inboxWithCalls();
  expect(() => inbox.push(head(FRAME.HELLO, WIRE_LIMITS.helloBytes + 1))).toThrow(BadFrame);
});

describe("a result", () => {
  verifies("wire.result", "with a status that is none fails its run, and its replica with it", () => {
    for (const status of [1, 100, 101, 199, 600, 1_000, 65_535])
      expect(after(result(1, "1", status))).toEqual([
        "app_error 1",
        expect.stringContaining(`status ${status}`),
      ]);
    for (const status of [0, 200, 204, 404, 599])
      expect(after(result(1, "1", status))).toEqual(["returned 1"]);
  });

  verifies("wire.result", "that is not JSON fails its run, however it arrives", () => {
    const bad = "bad: The app's process sent a result that is not JSON.";
    for (const text of ["", "NaN", "[1", '"', "1 1", "{a:1}"])
      expect(after(result(1, text))).toEqual(["result_not_json 1", bad]);
    const large = `["${"x".repeat(LARGE_BYTES)}"]`;
    for (const [text, expected] of [
      [large, ["returned 1"]],
      [large.slice(0, -1), ["result_not_json 1", bad]],
      [`NaN${large}`, ["result_not_json 1", bad]],
      [`${large}1`, ["result_not_json 1", bad]],
      [large.replace("x", "\n"), ["result_not_json 1", bad]],
    ] as const) {
      const bytes = result(1, text);
      const pieces = Array.from({ length: Math.ceil(bytes.length / 50_000) }, (_, i) =>
        bytes.subarray(i * 50_000, (i + 1) * 50_000),
      );
      expect(after(...pieces)).toEqual(expected);
      expect(after(bytes)).toEqual(expected);
    }
  });

  test("after a large one the next is looked at from its beginning", () => {
    const large = result(1, `["${"x".repeat(LARGE_BYTES)}"]`);
    const pieces = [large.subarray(0, 100_000), large.subarray(100_000)];
    expect(after(...pieces, result(2, "NaN"))).toEqual([
      "returned 1",
      "result_not_json 2",
      expect.any(String),
    ]);
    expect(after(...pieces, result(2, "2"))).toEqual(["returned 1", "returned 2"]);
  });

  test("of a time that cannot be is none", () => {
    for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e12]) {
      expect(after(result(1, "1", 0, ms))[0]).toMatch(/^bad: a run of/);
      const end = Buffer.alloc(8);
      end.writeDoubleLE(ms);
      expect(after(frame(FRAME.STREAM, 1), frame(FRAME.END, 1, end))[1]).toMatch(/^bad: a run of/);
    }
  });
});

test("a chunk is text or JSON, and what says to be JSON is", () => {
  const stream = frame(FRAME.STREAM, 1);
  expect(after(stream, chunk(1, "{", 1))).toEqual([
    "stream 1",
    "result_not_json 1",
    expect.stringContaining("not JSON"),
  ]);
  expect(after(stream, chunk(1, "{", 0))).toEqual(["stream 1", "text 1 1"]);
  expect(after(stream, chunk(1, "1", 2))).toEqual(["stream 1", "bad: a CHUNK of kind 2"]);
});

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
    [parseHello, { ...hello, setup_ms: -1 }],
    [parseHello, { ...hello, setup_ms: WIRE_LIMITS.setupMs + 1 }],
    [parseHello, { ...hello, setup_ms: "1" }],
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
    [
      parseFailure,
      { kind: "misfit", details: [{ field: "a", problem: "invalid", message: "m".repeat(5_000) }] },
    ],
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
  for (const setup_ms of [null, 0, WIRE_LIMITS.setupMs])
    expect(parseHello(Buffer.from(JSON.stringify({ ...hello, setup_ms }))).setup_ms).toBe(setup_ms);
  expect(parseHello(Buffer.from(JSON.stringify(hello))).setup_ms).toBeNull();
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

test("only a call that streams can stall", () => {
  const stalled = frame(FRAME.FAILED, 1, '{"kind":"stalled"}');
  expect(after(stalled)).toEqual(["bad: a FAILED of kind stalled for a call that does not stream"]);
  expect(after(frame(FRAME.STREAM, 1, ""), stalled)).toEqual(["stream 1", "cancelled 1"]);
});

test("a HELLO has no more steppers than functions", () => {
  const steppers = Object.fromEntries(
    Array.from({ length: WIRE_LIMITS.functions + 1 }, (_, index) => [`f${index}`, 1]),
  );
  expect(() => parseHello(Buffer.from(JSON.stringify({ ...HELLO, steppers })))).toThrow("1000 steppers");
});
