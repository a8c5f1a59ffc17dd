import { parseAgentMessage } from "../../src/engines/agent/agent-messages.ts";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FRAME, HEAD_BYTES, INITIAL_CREDIT_BYTES } from "../../src/replicas/frames.ts";
import { CONNECTION_KINDS } from "../../src/engines/home.ts";
import { parseFailure } from "../../src/replicas/wire-inbox.ts";
import { supervisorReader } from "../../src/engines/ray/supervisor-messages.ts";
import { SEAT_MOVES, parseSeatMessage } from "../../src/engines/agent/seat-messages.ts";
import { CALL_MOVES, CONTROL_MOVES, WIRE_MOVES } from "../../src/replicas/wire-order.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { parseHello, WIRE_LIMITS } from "../../src/engines/protocol.ts";
import { parseTemplateMessage } from "../../src/engines/templates/template.ts";

const read = (file: string): string => readFileSync(join(REPOSITORY, file), "utf8");
const DOCUMENT = read("docs/wire.md");
const PYTHON = read("python/millrace_worker/frames.py");

/** Frames as `NAME 7`, and where they travel as `NAME wire from`. */
type Frames = ReadonlyMap<string, string>;

function documented(document: string): Frames {
  const rows = document.matchAll(
    /^\| (\d+) \| `([A-Z_]+)` \| (wire|control) \| (to|from) the replica \| (.+) \|$/gm,
  );
  return new Map(
    [...rows].map(([, type, name = "", connection, way]) => [name, `${type} ${connection} ${way}`]),
  );
}

function inPython(source: string): Frames {
  const frames = new Map<string, string>();
  let place = "";
  for (const line of source.split("\n")) {
    const [, connection, way] =
      /^# The (wire|control)(?: connection)?, (to|from) the replica\.$/.exec(line) ?? [];
    if (connection) place = `${connection} ${way}`;
    else if (line === "") place = "";
    const [, name, type] = /^([A-Z_]+) = (\d+)\b/.exec(line) ?? [];
    if (name && place !== "") frames.set(name, `${type} ${place}`);
  }
  return frames;
}

/** What is in one and not, or not so, in the other; one line each. */
function differences(left: Frames, right: Frames): string[] {
  const names = new Set([...left.keys(), ...right.keys()]);
  return [...names]
    .filter((name) => left.get(name) !== right.get(name))
    .map((name) => `${name}: ${left.get(name) ?? "absent"} / ${right.get(name) ?? "absent"}`);
}

const withoutPlace = (frames: Frames): Frames =>
  new Map([...frames].map(([name, text]) => [name, text.split(" ")[0] ?? ""]));

test("the document's frames are those of the service and those of Python, no more and no less", () => {
  const here = new Map(Object.entries(FRAME).map(([name, type]) => [name, String(type)]));
  expect(documented(DOCUMENT).size).toBeGreaterThan(10);
  expect(differences(withoutPlace(documented(DOCUMENT)), here)).toEqual([]);
  expect(differences(documented(DOCUMENT), inPython(PYTHON))).toEqual([]);
  expect(new Set(Object.values(FRAME)).size).toBe(Object.keys(FRAME).length);
});

describe("the comparison finds planted differences", () => {
  const row = DOCUMENT.split("\n").find((line) => line.includes("`CHUNK`")) ?? "";
  test.each([
    ["a row that is missing", DOCUMENT.replace(row, ""), PYTHON, /^CHUNK: absent \/ 7 wire from$/],
    [
      "a row too many",
      DOCUMENT.replace(row, `${row}\n${row.replace("CHUNK", "ODD")}`),
      PYTHON,
      /^ODD: 7 .* \/ absent$/,
    ],
    ["another number", DOCUMENT.replace("| 7 |", "| 70 |"), PYTHON, /^CHUNK: 70 .* \/ 7 /],
    [
      "another connection",
      DOCUMENT.replace("`CHUNK` | wire", "`CHUNK` | control"),
      PYTHON,
      /^CHUNK: 7 control/,
    ],
    [
      "another direction",
      DOCUMENT.replace("`CHUNK` | wire | from", "`CHUNK` | wire | to"),
      PYTHON,
      /^CHUNK: 7 wire to/,
    ],
    [
      "a frame that only Python has",
      DOCUMENT,
      PYTHON.replace("CHUNK = 7", "CHUNK = 7\nNEW = 10"),
      /^NEW: absent \/ 10/,
    ],
  ])("%s", (_, document, python, difference) => {
    const found = differences(documented(document), inPython(python));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(difference);
  });
});

/** A table of moves as the document writes it: `while` and what may come then. */
function documentedMoves(phase: string): Record<string, string> {
  const rows = [
    ...DOCUMENT.matchAll(
      /^\| (?:(?:wire|control) \| )?(\w+) \| ((?:`[A-Z_]+` → \w+(?:, )?)*(?:nothing|frames of calls|answers about calls)?) \|$/gm,
    ),
  ];
  const [, , moves = ""] = rows.find(([, name]) => name === phase) ?? [];
  return Object.fromEntries(
    [...moves.matchAll(/`([A-Z_]+)` → (\w+)/g)].map(([, name, next]) => [name, next]),
  );
}

test("the order of frames is as documented, and no other", () => {
  const tables = [WIRE_MOVES, CONTROL_MOVES, CALL_MOVES].flatMap((moves) => Object.entries(moves));
  for (const [phase, moves] of tables) expect([phase, documentedMoves(phase)]).toEqual([phase, moves]);
  expect(Object.keys(documentedMoves("streaming"))).toContain("CHUNK");
});

test("the limits are as documented, and Python keeps within them", () => {
  const rows = [...DOCUMENT.matchAll(/^\| .+ \| ([\d,]+)(?: bytes| characters)? \(`(\w+)`\) \|/gm)];
  const shown = Object.fromEntries(
    rows.map(([, amount = "", name = ""]) => [name, Number(amount.replaceAll(",", ""))]),
  );
  expect(shown).toEqual(WIRE_LIMITS);
  const source = read("python/millrace_worker/frames.py");
  const python = Object.fromEntries(
    [...source.matchAll(/^([A-Z_]+) = ([\d_* ]+)$/gm)].map(([, name = "", product = ""]) => [
      name,
      product.split("*").reduce((sum, factor) => sum * Number(factor.trim().replaceAll("_", "")), 1),
    ]),
  );
  expect(python).toMatchObject({
    HELLO_BYTES: WIRE_LIMITS.helloBytes,
    FUNCTIONS: WIRE_LIMITS.functions,
    STEPPER_CALLS: WIRE_LIMITS.stepperCalls,
    PARAMETERS: WIRE_LIMITS.parameters,
    SCHEMA_VALUES: WIRE_LIMITS.schemaValues,
    APP_SCHEMA_VALUES: WIRE_LIMITS.appSchemaValues,
    NAME_CHARS: WIRE_LIMITS.nameChars,
    NOTE_CHARS: WIRE_LIMITS.noteChars,
    MESSAGE_CHARS: WIRE_LIMITS.messageChars,
    MISFITS: WIRE_LIMITS.misfits,
    TYPES: WIRE_LIMITS.types,
    RETRY_AFTER_SECONDS: WIRE_LIMITS.retryAfterSeconds,
    CHECKPOINT_BYTES: WIRE_LIMITS.checkpointBytes,
  });
  expect(4 * (python["PROGRESS_CHARS"] ?? Number.NaN)).toBe(WIRE_LIMITS.progressBytes);
  // A character takes 12 bytes at most where everything is escaped: two halves of six.
  const { MESSAGE_CHARS = 0, TRACEBACK_CHARS = 0, MISFITS = 0, MISFIT_CHARS = 0 } = python;
  const { TYPES = 0, NAME_CHARS = 0 } = python;
  expect(12 * (MESSAGE_CHARS + TRACEBACK_CHARS + TYPES * NAME_CHARS) + 1_000).toBeLessThan(
    WIRE_LIMITS.failedBytes,
  );
  expect(MISFITS * (12 * MISFIT_CHARS + 50) + 1_000).toBeLessThan(WIRE_LIMITS.failedBytes);
});

test("the kinds of connection, the head and the first credit are as documented", () => {
  const kinds = [...DOCUMENT.matchAll(/^\| `(\w+)` \| an? (?:replica|template)/gm)].map(
    ([, kind = ""]) => kind,
  );
  expect(kinds.toSorted()).toEqual([...CONNECTION_KINDS].toSorted());
  const head = [...DOCUMENT.matchAll(/^\| (\d) \| (?:length|call id|type)/gm)].map(([, bytes]) =>
    Number(bytes),
  );
  expect(head.reduce((sum, bytes) => sum + bytes, 0)).toBe(HEAD_BYTES);
  expect(DOCUMENT).toContain(`credit of\n   ${INITIAL_CREDIT_BYTES.toLocaleString("en")} bytes`);
  expect(DOCUMENT).toContain(`whole frame, ${HEAD_BYTES} bytes of head`);
  expect(read("python/millrace_worker/chunks.py")).toMatch(
    new RegExp(`^INITIAL_CREDIT_BYTES = ${INITIAL_CREDIT_BYTES}$`, "m"),
  );
});

function examples(title: string): string[] {
  const [, text = ""] = new RegExp(`^\`\`\`json ${title}\\n([^]*?)\`\`\``, "m").exec(DOCUMENT) ?? [];
  const lines = text.trim().split("\n");
  expect(lines[0]).not.toBe("");
  return lines;
}

test("the payloads shown are ones that the service reads", () => {
  for (const line of examples("HELLO")) expect(parseHello(Buffer.from(line)).pid).toBe(4711);
  const kinds = examples("FAILED").map((line) => parseFailure(Buffer.from(line)).kind);
  expect(kinds).toEqual(["raised", "misfit", "no_function", "unsendable", "cancelled"]);
  const named = examples("FAILED").map((line) => (JSON.parse(line) as { kind: string }).kind);
  expect(DOCUMENT).toContain(`JSON by \`kind\`: ${named.map((kind) => `\`${kind}\``).join(", ")}`);
});

test("the messages of a template are those that are shown, sent and understood", () => {
  const rows = [...DOCUMENT.matchAll(/^\| `(\w+)` \| (to|from) the template \|/gm)];
  const named = (way: string) => rows.filter((row) => row[2] === way).map(([, name = ""]) => name);
  const shown = new Map(examples("template").map((line) => [Object.keys(JSON.parse(line))[0] ?? "", line]));
  expect([...shown.keys()].toSorted()).toEqual([...named("from"), ...named("to")].toSorted());
  for (const name of named("from"))
    expect(parseTemplateMessage(Buffer.from(shown.get(name) ?? ""))).toHaveProperty(name);
  for (const name of named("to"))
    expect(() => parseTemplateMessage(Buffer.from(shown.get(name) ?? ""))).toThrow(
      "a line that cannot be read",
    );
  const python = read("python/millrace_worker/template.py");
  const sent = [...python.matchAll(/_say\([^)]*?\{"(\w+)":/g)].map(([, name = ""]) => name);
  const obeyed = [...python.matchAll(/"(\w+)" in message/g)].map(([, name = ""]) => name);
  expect(sent.toSorted()).toEqual(named("from").toSorted());
  expect(obeyed.toSorted()).toEqual(named("to").toSorted());
});

function agentRows(heading: string) {
  const section = DOCUMENT.split(/^## /m).find((part) => part.startsWith(heading)) ?? "";
  return [...section.matchAll(/^\| `(\w+)` \| (to the agent|from the agent|both) \|/gm)];
}

test("what an agent of this machine says and hears is what the document lists", () => {
  const named = (way: string) =>
    agentRows("Agents").flatMap(([, name = "", its]) => (its === way ? [name] : []));
  const python = ["local", "watch"].map((name) => read(`python/millrace_agent/${name}.py`)).join("");
  const said = new Set([...python.matchAll(/\.say\("(\w+)"/g)].map(([, name = ""]) => name));
  expect([...said].toSorted()).toEqual(named("from the agent").toSorted());
  const heard = [...python.matchAll(/word == "(\w+)"/g)].map(([, name = ""]) => name);
  expect(heard.toSorted()).toEqual(named("to the agent").toSorted());
  for (const line of [
    '{"full":"scratch"}',
    '{"exited":{"is_out_of_memory":true}}',
    '{"at":{"id":1,"is":false,"taken":8080}}',
    '{"shown":{"id":1,"problem":null}}',
  ])
    expect(Object.keys(JSON.parse(line) as object)).toEqual(
      Object.keys(parseAgentMessage(Buffer.from(line))),
    );
  for (const line of ['{"full":"/etc"}', '{"at":{"id":-1,"is":true}}', '{"hello":{}}', "{}"])
    expect(() => parseAgentMessage(Buffer.from(line))).toThrow("a message that no agent sends");
});

/** The words in a Python table of moves that are not phases. */
function pythonMoves(file: string, phases: readonly string[]): string[] {
  const [, moves = ""] = /^_SE\w+ = (.*?)^\}/ms.exec(read(file)) ?? [];
  const words = new Set([...moves.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name));
  return [...words].filter((word) => !phases.includes(word));
}

test("the messages of an agent are those that are shown, and both sides understand them", () => {
  const named = (other: string) =>
    agentRows("Agents on other machines").flatMap(([, name = "", way]) => (way === other ? [] : [name]));
  const shown = examples("agent").map((line) => Object.keys(parseSeatMessage(Buffer.from(line)))[0] ?? "");
  expect(shown.toSorted()).toEqual(named("to the agent").toSorted());
  const legal = new Set(Object.values(SEAT_MOVES).flatMap((moves) => Object.keys(moves)));
  expect([...legal].toSorted()).toEqual(shown.toSorted());
  const heard = pythonMoves("python/millrace_agent/line.py", ["waiting", "seated", "over"]);
  expect(heard.toSorted()).toEqual(named("from the agent").toSorted());
});

test("the messages of a supervisor on Ray are those that are shown, and both sides understand them", () => {
  const rows = [...DOCUMENT.matchAll(/^\| `(\w+)` \| (to|from) the supervisor \|/gm)];
  const named = (way: string) => rows.filter((row) => row[2] === way).map(([, name = ""]) => name);
  const reader = supervisorReader();
  const shown = examples("supervisor").map((line) => Object.keys(reader(Buffer.from(line)))[0] ?? "");
  expect(shown.toSorted()).toEqual(named("from").toSorted());
  const heard = pythonMoves("python/millrace_ray/home.py", ["waiting", "served", "over"]);
  expect(heard.filter((name) => name !== "beat").toSorted()).toEqual(named("to").toSorted());
});
