import { describe, expect, test } from "vitest";
import { read, schemaOf } from "../../support/harness-signatures.ts";
import { findPythons } from "../../support/pythons.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { parseHello } from "../../../src/engines/protocol.ts";

const PYTHON = "python3";
const INTEGER = { type: "integer" };
const STRING = { type: "string" };

describe.each(findPythons())("on Python $version", ({ command }) => {
  test("parameters of every kind are told, run_id is not", () => {
    const told = read(command, "def run(a, b=1, /, c=2, *more, run_id, d, **rest: int): pass\n");
    expect(told.get("run")?.parameters).toEqual([
      { name: "a", kind: "named", required: true, annotation: null, default: null, schema: {} },
      { name: "b", kind: "named", required: false, annotation: null, default: "1", schema: { default: 1 } },
      { name: "c", kind: "named", required: false, annotation: null, default: "2", schema: { default: 2 } },
      { name: "d", kind: "named", required: true, annotation: null, default: null, schema: {} },
      { name: "rest", kind: "rest", required: false, annotation: "int", default: null, schema: INTEGER },
    ]);
  });

  test("a hint that cannot be described says nothing, and spoils no other", () => {
    const main = `
from typing import *
import dataclasses
if TYPE_CHECKING:
    from nowhere import Thing

class Broken:
    def model_json_schema(**options): raise SystemExit(3)

class Junk:
    def model_json_schema(**options): return {"a": {1, 2}}

class Text:
    def model_json_schema(**options): return "text"

class Loop:
    def model_json_schema(**options):
        schema = {}
        schema["items"] = schema
        return schema

class Meta(type):
    def __getattribute__(cls, name): raise KeyboardInterrupt

class Hidden(metaclass=Meta): pass

@dataclasses.dataclass
class Half:
    good: int
    thing: "Thing"

class Strange:
    def __repr__(self): raise SystemExit(4)
    __str__ = __repr__

Bomb = int
for _ in range(13):
    Bomb = tuple[Bomb, Bomb]

def missing(x: "Thing", y: int): pass
def division(x: "1/0", y: int): pass
def leaves(x: "__import__('sys').exit(3)", y: int): pass
def number(x: 5, y: int): pass
def broken(x: Broken, y: int): pass
def junk(x: Junk, y: int): pass
def text(x: Text, y: int): pass
def loop(x: Loop, y: int): pass
def hidden(x: Hidden, y: int): pass
def bomb(x: Bomb, y: int): pass
def strange(x: Strange(), y: int = 1): pass
def shown(x=Strange(), *, y: int): pass
def half(x: Half, y: int) -> "Thing": pass
`;
    const told = read(command, main);
    expect(told.size).toBe(13);
    for (const [name, { parameters }] of told)
      expect([name, parameters[1]?.schema["type"]]).toEqual([name, "integer"]);
    const described = [...told.keys()].filter((name) => JSON.stringify(schemaOf(told, name)) !== "{}");
    expect(described).toEqual(["text", "half"]);
    expect(schemaOf(told, "text")).toEqual({ $ref: "#/$defs/Text", $defs: { Text: {} } });
    expect(schemaOf(told, "half")).toMatchObject({
      $defs: { Half: { properties: { good: {}, thing: {} }, required: ["good", "thing"] } },
    });
  });
});

test("schemas are bounded, for a function and for all of them", () => {
  const literal = (count: number): string => `Literal[tuple("choice %d" % i for i in range(${count}))]`;
  const many = Array.from({ length: 40 }, (_, i) => `def f${i}(x: ${literal(2500)}): pass\n`).join("");
  const large = `def large(x: int, y: ${literal(4000)}) -> int: pass\n`;
  const told = read(PYTHON, `from typing import *\n${large}${many}def last(x: int): pass\n`);
  expect(told.get("large")).toMatchObject({ returns: {}, parameters: [{ schema: {} }, { schema: {} }] });
  const sizes = [...told.values()].map((each) => JSON.stringify(each).length);
  expect(sizes.filter((bytes) => bytes > 30_000).length).toBeGreaterThan(5);
  expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(1.1 * 1024 * 1024);
  expect(schemaOf(told, "last")).toEqual(INTEGER);
});

test("schemas have no more values inside them than the service takes", () => {
  const literal = (count: number): string => `Literal[tuple(range(${count}))]`;
  // Short ones: it is not their bytes that are too many.
  const many = Array.from({ length: 10 }, (_, i) => `def f${i}(x: ${literal(3_000)}): pass\n`).join("");
  const large = `def large(x: ${literal(6_000)}) -> int: pass\n`;
  const told = read(PYTHON, `from typing import *\n${large}${many}def last(x: int): pass\n`);
  expect(told.get("large")).toMatchObject({ returns: {}, parameters: [{ schema: {} }] });
  expect([...told.values()].filter((each) => JSON.stringify(each).length > 10_000)).toHaveLength(6);
  expect(schemaOf(told, "last")).toEqual(INTEGER);
  const hello = { pid: 1, python: "3.12.0", functions: [...told.values()] };
  expect(parseHello(Buffer.from(JSON.stringify(hello))).functions).toHaveLength(12);
});

test("the time they take is bounded", () => {
  const main = `
import time

class Slow:
  def model_json_schema(**options):
      end = time.thread_time() + 1.1
      while time.thread_time() < end: pass
      return {"type": "string"}

def first(x: Slow): pass
def second(x: Slow, y: int): pass
`;
  const told = read(PYTHON, main);
  expect(schemaOf(told, "first")).toMatchObject({ $defs: { Slow: { type: "string" } } });
  expect(told.get("second")?.parameters.map(({ schema }) => schema)).toEqual([{}, {}]);
});

const MAIN = `
from typing import Optional, Union

def run(n: int, text: str = "x", *, more: Optional[float] = None, run_id) -> dict:
    """Says something.

    At length.
    """
    return {"n": n, "type": type(n).__name__}

def hostile(x: "__import__('sys').exit(3)", y: "Missing" = 1):
    return "started"

async def later(**rest: int):
    return rest
`;

verifies(
  "deploy.signatures",
  "parameters, types, defaults and docstrings are stored with the version, and refuse no value",
  async () => {
    const service = await testService({ app: { main: MAIN } });
    const live = service.apps.get("app");
    const id = live?.version.id ?? "";
    expect((await service.call("app", {}, { functionName: "hostile" })).status).toBe(422);
    const answer = await service.call("app", { x: 1 }, { functionName: "hostile" });
    expect(answer.json.result).toBe("started");
    const { store } = service.service;
    await until("they are stored", async () => (await store.versions.find(id))?.functions != null);
    const functions = (await store.versions.find(id))?.functions ?? [];
    expect(functions.map(({ name }) => name)).toEqual(["run", "hostile", "later"]);
    expect(functions[0]).toEqual({
      name: "run",
      parameters: [
        { name: "n", kind: "named", required: true, annotation: "int", default: null, schema: INTEGER },
        {
          name: "text",
          kind: "named",
          required: false,
          annotation: "str",
          default: "'x'",
          schema: { ...STRING, default: "x" },
        },
        {
          name: "more",
          kind: "named",
          required: false,
          annotation: "typing.Optional[float]",
          default: "None",
          schema: { anyOf: [{ type: "number" }, { type: "null" }], default: null },
        },
      ],
      isAsync: false,
      isGenerator: false,
      wantsRunId: true,
      doc: "Says something.\n\n    At length.\n    ",
      streams: false,
      returns: { type: "object" },
    });
    expect((await service.call("app", { n: "one" })).json.result).toEqual({ n: "one", type: "str" });
    const rest = await service.call("app", { a: "b" }, { functionName: "later" });
    expect(rest.json.result).toEqual({ a: "b" });
  },
);
