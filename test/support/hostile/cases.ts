import { FRAME } from "../../../src/replicas/frames.ts";
import type { ConnectionKind } from "../../../src/engines/home.ts";
import { frame, inPieces, mutateFrames, mutateJson } from "./mutate.ts";
import type { Random } from "./random.ts";

/** One thing that a hostile process does. */
export type Step =
  | { readonly act: "connect"; readonly kind: ConnectionKind; readonly preface: Buffer }
  | { readonly act: "send"; readonly on: ConnectionKind; readonly bytes: Buffer }
  | { readonly act: "close" | "end"; readonly on: ConnectionKind }
  | { readonly act: "exit" };

/** What a process does, and whether a harness would do the same. */
export type Plan = { readonly steps: readonly Step[]; readonly isHostile: boolean };

export type HostileTickets = { readonly template?: string | undefined; readonly replica: string };

const KINDS: readonly ConnectionKind[] = ["stdout", "stderr", "wire", "control"];
const KIB = 1024;

export const FUNCTIONS = [
  {
    name: "run",
    parameters: [
      {
        name: "n",
        kind: "named",
        required: false,
        annotation: "int",
        default: "1",
        schema: { type: "integer" },
      },
    ],
    is_async: false,
    is_generator: false,
    wants_run_id: false,
    doc: "What it says.",
    streams: false,
    returns: {},
  },
];
export const HELLO = { pid: 4711, python: "3.11.7", setup_ms: 12.5, functions: FUNCTIONS };
const MANY = { ...HELLO, functions: Array.from({ length: 1_001 }, () => FUNCTIONS[0]) };
const RAISED = {
  kind: "raised",
  code: "app_error",
  message: "ValueError: no",
  traceback: "Traceback",
  run_ms: 0.2,
};
const FAILURES = [
  RAISED,
  { ...RAISED, message: "x".repeat(20_000), traceback: "y".repeat(100_000) },
  { kind: "misfit", details: [{ field: "n", problem: "missing" }], more: 0 },
  { kind: "misfit", details: [{ field: "n", problem: "invalid", message: "must be odd" }], more: 0 },
  { kind: "no_function" },
  { kind: "unsendable", code: "result_not_json", message: "result.a is of type set", run_ms: 0.2 },
];

export function preface(kind: string, ticket: string): Buffer {
  return Buffer.from(`millrace 1 ${kind} ${ticket}\n`);
}

/** How long one lives that does not get anywhere, unless it is one of those that stay until they are ended. */
const IMPATIENCE_MS = 200;

/** How long a process waits in vain; null for as long as it lives. */
export function patience(random: Random): number | null {
  return random.chance(0.9) ? IMPATIENCE_MS : null;
}

/** What a process does first: an ordinary replica says hello, somehow; one that does so badly may give up. */
export function opening(
  random: Random,
  tickets: HostileTickets,
): Plan & { readonly patienceMs: number | null } {
  const isHostile = random.chance(0.1);
  const steps = isHostile ? badOpening(random, tickets) : goodOpening(random, tickets);
  return { isHostile, steps, patienceMs: isHostile ? patience(random) : null };
}

function goodOpening(random: Random, { replica }: HostileTickets): Step[] {
  const connects = KINDS.map((kind) => ({ act: "connect", kind, preface: preface(kind, replica) }) as const);
  const hello = sends(random, "wire", [frame(FRAME.HELLO, 0, JSON.stringify(HELLO))]);
  return [...connects, ...noise(random), ...hello];
}

function badOpening(random: Random, { replica }: HostileTickets): Step[] {
  const connects = KINDS.map((kind) => ({ act: "connect", kind, preface: preface(kind, replica) }) as const);
  const hello = sends(random, "wire", [frame(FRAME.HELLO, 0, JSON.stringify(HELLO))]);
  return random.weigh<() => Step[]>([
    [2, () => [...badConnects(random, replica), ...hello]],
    [1, () => [...shuffled(random, connects), ...hello, ...hello]],
    [3, () => [...connects, ...sends(random, "wire", [frame(FRAME.HELLO, 0, mutateJson(random, HELLO))])]],
    [
      3,
      () => [
        ...connects,
        ...sends(random, "wire", mutateFrames(random, [frame(FRAME.HELLO, 0, JSON.stringify(HELLO))])),
      ],
    ],
    [1, () => [...connects, ...sends(random, "wire", [frame(FRAME.HELLO, 0, JSON.stringify(MANY))])]],
    [1, () => [...connects, ...sends(random, "wire", [frame(FRAME.HELLO, 0, "", 2 ** 30)])]],
    [1, () => [...connects, ...sends(random, "wire", answers(random, 1))]],
    [1, () => [...connects, ...sends(random, "control", [random.bytes(random.below(60))]), ...hello]],
    [1, () => [...connects, ...hello, { act: "close", on: random.pick(KINDS) }]],
    [1, () => [...connects, ...initFailed(random)]],
  ])();
}

function initFailed(random: Random): Step[] {
  const failure = { message: "ImportError: x".repeat(random.pick([1, 2_000])), traceback: "Traceback" };
  const payload = random.chance(0.5) ? JSON.stringify(failure) : mutateJson(random, failure);
  return [...sends(random, "wire", [frame(FRAME.INIT_FAILED, 0, payload)]), { act: "exit" }];
}

function badConnects(random: Random, ticket: string): Step[] {
  const good = KINDS.map((kind) => ({ act: "connect", kind, preface: preface(kind, ticket) }) as const);
  const bad = Array.from({ length: 1 + random.below(4) }, () => {
    const kind = random.pick([...KINDS, "template"] as const);
    const line = random.pick([
      preface(kind, ticket),
      preface(kind, ticket.slice(1)),
      preface(kind, "0".repeat(32)),
      preface("wires", ticket),
      Buffer.from(`millrace 2 ${kind} ${ticket}\n`),
      Buffer.from(`millrace 1 ${kind} ${ticket}`),
      Buffer.from(`${"x".repeat(200)}\n`),
      random.bytes(random.below(300)),
    ]);
    return { act: "connect", kind, preface: line } as const;
  });
  return shuffled<Step>(random, [...good, ...bad]);
}

/** What a process does with a call; its last step ends the call, or the process. */
export function answer(random: Random, callId: number): Plan {
  // Without an answer now and then each start would wait longer than the one before.
  const isHostile = random.chance(callId === 1 ? 0.1 : 0.8);
  const steps = isHostile ? badAnswer(random, callId) : sends(random, "wire", legal(random, callId));
  return { isHostile, steps };
}

function badAnswer(random: Random, callId: number): Step[] {
  return random.weigh<() => Step[]>([
    [
      30,
      () => [
        ...sends(random, "wire", mutateFrames(random, legal(random, callId))),
        ...finish(random, callId),
      ],
    ],
    [30, () => [...sends(random, "wire", answers(random, callId)), ...finish(random, callId)]],
    [5, () => [...sends(random, "control", control(random, callId)), ...finish(random, callId)]],
    [5, () => [...noise(random), ...noise(random), ...finish(random, callId)]],
    [
      5,
      () => [
        { act: random.pick(["close", "end"] as const), on: random.pick(KINDS) },
        ...finish(random, callId),
      ],
    ],
  ])();
}

function finish(random: Random, callId: number): Step[] {
  return random.weigh<() => Step[]>([
    [40, () => sends(random, "wire", [result(callId, "1")])],
    [40, () => [{ act: "close", on: "wire" }]],
    [20, () => [{ act: "exit" }]],
  ])();
}

/** Frames that a harness would send for a call. */
function legal(random: Random, callId: number): Buffer[] {
  return random.weigh<() => Buffer[]>([
    [4, () => [result(callId, JSON.stringify({ n: random.below(1000) }))]],
    [1, () => [result(callId, JSON.stringify("x".repeat(random.pick([10, 300 * KIB]))))]],
    [2, () => [frame(FRAME.FAILED, callId, JSON.stringify(random.pick(FAILURES)))]],
    [
      1,
      () => [
        ...Array.from({ length: random.below(6) }, (_, i) => progress(callId, i / 6, "so far")),
        frame(FRAME.CHECKPOINT, callId, '{"n":1}'),
        result(callId, "1"),
      ],
    ],
    [
      3,
      () => [
        frame(FRAME.STREAM, callId),
        ...Array.from({ length: random.below(6) }, () => chunk(callId, 1, '{"a":1}')),
        ...Array.from({ length: random.below(3) }, () => chunk(callId, 0, "text\nand more")),
        frame(FRAME.END, callId, milliseconds(1.5)),
      ],
    ],
  ])();
}

/** Frames in any order, most of them well-formed, some of them never. */
function answers(random: Random, callId: number): Buffer[] {
  return Array.from({ length: 1 + random.below(6) }, () =>
    random.weigh<() => Buffer>([
      [3, () => frame(FRAME.STREAM, callId)],
      [
        3,
        () =>
          chunk(
            callId,
            random.pick([0, 1, 1, 2, 255]),
            random.pick(['{"a":1}', "1", "NaN", "", '{"a":', "[1,2"]),
          ),
      ],
      [1, () => Buffer.concat(Array.from({ length: 5 }, () => chunk(callId, 0, "x".repeat(30 * KIB))))],
      [1, () => chunk(callId, 1, `"${"x".repeat(500 * KIB)}`)],
      [
        3,
        () =>
          frame(
            FRAME.END,
            callId,
            milliseconds(random.pick([1, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e300])),
          ),
      ],
      [
        3,
        () =>
          result(
            callId,
            random.pick(["1", "NaN", "", "[1", '"a', "1 2", "\xff"]),
            random.pick([0, 200, 404]),
          ),
      ],
      [2, () => result(callId, "1", random.pick([1, 100, 101, 199, 600, 1000, 65_535]))],
      [1, () => result(callId, `[${"1,".repeat(160_000)}${random.pick(["1]", "", "NaN]"])}`)],
      [1, () => result(callId, "1", 0, random.pick([-1, Number.NaN, Number.POSITIVE_INFINITY]))],
      [2, () => frame(FRAME.CHECKPOINT, callId, random.pick(["1", "null", "{", "", '"\xff']))],
      [1, () => frame(FRAME.CHECKPOINT, callId, `"${"x".repeat(2 ** 20)}"`)],
      [
        2,
        () =>
          progress(
            callId,
            random.pick([0, 0.5, 1, Number.NaN, -1, 1.5, Number.POSITIVE_INFINITY]),
            random.pick(["", "so far", "x".repeat(3_000)]),
          ),
      ],
      [1, () => Buffer.concat(Array.from({ length: 1_000 }, () => progress(callId, 0.5, "")))],
      [2, () => frame(FRAME.CANCELLED, callId)],
      [3, () => frame(FRAME.FAILED, callId, mutateJson(random, random.pick(FAILURES)))],
      [1, () => frame(FRAME.FAILED, callId, JSON.stringify({ ...RAISED, message: "x".repeat(2 ** 21) }))],
      [1, () => frame(FRAME.HELLO, 0, JSON.stringify(HELLO))],
      [1, () => frame(FRAME.INIT_FAILED, 0, JSON.stringify({ message: "m", traceback: "t" }))],
      [1, () => frame(random.pick([0, 1, 10, 11, 32, 33, 34, 35, 36, 37, 38, 39, 40, 200]), callId)],
      [1, () => frame(FRAME.RESULT, callId, random.bytes(20), 2 ** 30)],
    ])(),
  );
}

/** What a process answers when it is asked for a call back. */
export function askedBack(random: Random, callId: number): Plan {
  const isHostile = random.chance(0.3);
  const frames = isHostile ? control(random, callId) : [frame(FRAME.BEGUN, callId)];
  return { isHostile, steps: sends(random, "control", frames) };
}

/** What a process answers when it is asked for a sign of life. */
export function pinged(random: Random): Plan {
  const isHostile = random.chance(0.1);
  const pong = frame(FRAME.PONG, 0);
  const bad = [
    [pong, pong],
    [frame(FRAME.PONG, 1)],
    [frame(FRAME.PONG, 0, "x")],
    [frame(FRAME.PING, 0)],
    control(random, 1),
    [],
  ];
  return { isHostile, steps: sends(random, "control", isHostile ? random.pick(bad) : [pong]) };
}

function control(random: Random, callId: number): Buffer[] {
  const frames = Array.from({ length: 1 + random.below(3) }, () =>
    frame(
      random.pick([FRAME.WITHDRAWN, FRAME.BEGUN, FRAME.CANCEL, FRAME.RESULT, FRAME.PONG]),
      random.pick([callId, callId, callId + 1, 0]),
      random.chance(0.1) ? "x" : "",
    ),
  );
  return random.chance(0.3) ? mutateFrames(random, frames) : frames;
}

/** Steps that send frames on a connection, in pieces. */
export function sends(random: Random, on: ConnectionKind, frames: readonly Buffer[]): Step[] {
  return inPieces(random, Buffer.concat(frames)).map((bytes) => ({ act: "send", on, bytes }));
}

/** What a process prints. */
export function noise(random: Random): Step[] {
  const tag = `\x1e${random.pick(["0190a3c4-0000-7000-8000-000000000001", "x".repeat(500), ""])}\x1f`;
  const text = random.pick([
    Buffer.from(`${tag}a line\n`),
    Buffer.from(`${tag}no end`),
    Buffer.from("\n".repeat(random.pick([1, 1, 1, 1, 2_000]))),
    Buffer.from("x".repeat(random.pick([10, 10, 10, 150 * KIB]))),
    Buffer.from("\0".repeat(1_000)),
    random.bytes(random.below(500)),
  ]);
  return sends(random, random.pick(["stdout", "stderr"] as const), [text]);
}

function result(callId: number, json: string, status = 0, runMs = 0.5): Buffer {
  const statusBytes = Buffer.alloc(2);
  statusBytes.writeUInt16LE(status);
  return frame(
    FRAME.RESULT,
    callId,
    Buffer.concat([milliseconds(runMs), statusBytes, Buffer.from(json, "latin1")]),
  );
}

function chunk(callId: number, kind: number, text: string): Buffer {
  return frame(FRAME.CHUNK, callId, Buffer.concat([Buffer.from([kind]), Buffer.from(text)]));
}

function progress(callId: number, fraction: number, message: string): Buffer {
  return frame(FRAME.PROGRESS, callId, Buffer.concat([milliseconds(fraction), Buffer.from(message)]));
}

function milliseconds(ms: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(ms);
  return bytes;
}

function shuffled<T>(random: Random, values: readonly T[]): T[] {
  const left = [...values];
  return values.map(() => left.splice(random.below(left.length), 1)[0]!);
}
