import { describe, expect, test } from "vitest";
import { read, type Schema, schemaOf, type Told } from "../../support/harness-signatures.ts";
import { findPythons } from "../../support/pythons.ts";

const TYPES = `
import collections, dataclasses, datetime, enum, uuid
from typing import *

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Right(enum.IntFlag):
    READ = 1
    WRITE = 2

class Odd(enum.Enum):
    A = b"bytes"

@dataclasses.dataclass
class Node:
    value: int
    children: List["Node"] = dataclasses.field(default_factory=list)
    color: Color = Color.RED
    note: Optional[str] = None
    made: int = dataclasses.field(init=False, default=0)
    kept: ClassVar[int] = 3

class Part(TypedDict, total=False):
    a: int

class Whole(Part):
    b: "Color"

class Pair(NamedTuple):
    x: int
    y: str = "k"

class Names(List[str]):
    pass

UserId = NewType("UserId", int)
Text = TypeVar("Text", bound=str)
Both = TypeVar("Both", int, str)
`;

const COLOR = { type: "string", enum: ["red", "blue"] };
const NODE = {
  type: "object",
  properties: {
    value: { type: "integer" },
    children: { type: "array", items: { $ref: "#/$defs/Node" } },
    color: { $ref: "#/$defs/Color", default: "red" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
  },
  required: ["value"],
};
const INTEGER = { type: "integer" };
const STRING = { type: "string" };

const HINTS: Record<string, Schema> = {
  int: INTEGER,
  float: { type: "number" },
  str: STRING,
  bool: { type: "boolean" },
  None: { type: "null" },
  Any: {},
  object: {},
  bytes: {},
  complex: {},
  list: { type: "array" },
  "list[int]": { type: "array", items: INTEGER },
  "List[int]": { type: "array", items: INTEGER },
  "Sequence[int]": { type: "array", items: INTEGER },
  "Iterable[int]": { type: "array", items: INTEGER },
  "collections.deque": { type: "array" },
  Names: { type: "array" },
  "Set[str]": { type: "array", uniqueItems: true, items: STRING },
  "frozenset[str]": { type: "array", uniqueItems: true, items: STRING },
  tuple: { type: "array" },
  Tuple: { type: "array" },
  "Tuple[int, ...]": { type: "array", items: INTEGER },
  "tuple[int, str]": { type: "array", prefixItems: [INTEGER, STRING], minItems: 2, maxItems: 2 },
  dict: { type: "object" },
  "dict[str, int]": { type: "object", additionalProperties: INTEGER },
  "Mapping[str, Any]": { type: "object" },
  "DefaultDict[str, List[int]]": {
    type: "object",
    additionalProperties: { type: "array", items: INTEGER },
  },
  "Optional[int]": { anyOf: [INTEGER, { type: "null" }] },
  "Union[int, str]": { anyOf: [INTEGER, STRING] },
  "Union[int, Any]": {},
  'Literal["x", "y"]': { type: "string", enum: ["x", "y"] },
  "Literal[1]": { type: "integer", const: 1 },
  'Literal["x", 1, None]': { enum: ["x", 1, null] },
  'Literal[b"x"]': {},
  "datetime.datetime": { type: "string", format: "date-time" },
  "datetime.date": { type: "string", format: "date" },
  "datetime.time": { type: "string", format: "time" },
  "datetime.timedelta": {},
  "uuid.UUID": { type: "string", format: "uuid" },
  UserId: INTEGER,
  Text: STRING,
  Both: { anyOf: [INTEGER, STRING] },
  'Annotated[int, "How many"]': { ...INTEGER, description: "How many" },
  "Callable[[int], str]": {},
  "Type[int]": {},
  Right: INTEGER,
  Color: { $ref: "#/$defs/Color", $defs: { Color: COLOR } },
  Level: { $ref: "#/$defs/Level", $defs: { Level: { type: "integer", enum: [1, 2] } } },
  Odd: { $ref: "#/$defs/Odd", $defs: { Odd: {} } },
  Node: { $ref: "#/$defs/Node", $defs: { Node: NODE, Color: COLOR } },
  'list["Node"]': {
    type: "array",
    items: { $ref: "#/$defs/Node" },
    $defs: { Node: NODE, Color: COLOR },
  },
  Whole: {
    $ref: "#/$defs/Whole",
    $defs: {
      Whole: { type: "object", properties: { a: INTEGER, b: { $ref: "#/$defs/Color" } }, required: ["b"] },
      Color: COLOR,
    },
  },
  Pair: {
    $ref: "#/$defs/Pair",
    $defs: { Pair: { type: "array", prefixItems: [INTEGER, STRING], minItems: 1, maxItems: 2 } },
  },
};

const DEFAULTS: Record<string, Schema> = {
  "int = 1": { ...INTEGER, default: 1 },
  'str = "x"': { ...STRING, default: "x" },
  "Optional[int] = None": { anyOf: [INTEGER, { type: "null" }], default: null },
  "int = None": { anyOf: [INTEGER, { type: "null" }], default: null },
  "Any = None": { default: null },
  "Any = [1, {'a': None}]": { default: [1, { a: null }] },
  "Any = (1, 2)": { default: [1, 2] },
  "Any = {1: 2}": {},
  "Any = object()": {},
  'float = float("nan")': { type: "number" },
  "Color = Color.RED": { $ref: "#/$defs/Color", default: "red", $defs: { Color: COLOR } },
};

/** Return hints, with whether the function yields: the schema and whether it streams. */
const RESULTS: readonly (readonly [string, "return" | "yield", Schema, boolean])[] = [
  ["int", "return", INTEGER, false],
  ["List[int]", "return", { type: "array", items: INTEGER }, false],
  ["Iterable[int]", "return", { type: "array", items: INTEGER }, false],
  ["Iterator[int]", "return", INTEGER, true],
  ["Generator[int, None, str]", "yield", INTEGER, true],
  ["Iterator[int]", "yield", INTEGER, true],
  ["Iterable[int]", "yield", INTEGER, true],
  ["Iterator", "yield", {}, true],
  ["int", "yield", {}, true],
];

/** Every hint as it stands, and again as text that is evaluated only when it is asked for. */
const FUTURE = "from __future__ import annotations\n";

function functionsOf(hints: readonly string[]): string {
  return hints.map((hint, i) => `def f${i}(x: ${hint}): pass\n`).join("");
}

describe.each(findPythons())("on Python $version", ({ command }) => {
  test.each([
    ["hints", ""],
    ["hints that are text", FUTURE],
  ])("%s are described as JSON Schemas", (_, future) => {
    const cases = Object.entries({ ...HINTS, ...DEFAULTS });
    const told = read(command, future + TYPES + functionsOf(cases.map(([hint]) => hint)));
    for (const [i, [hint, schema]] of cases.entries())
      expect([hint, schemaOf(told, `f${i}`)]).toEqual([hint, schema]);
    expect(cases.length).toBeGreaterThan(60);
  });

  test("a result is what is returned, or each thing that is yielded", () => {
    const functions = RESULTS.map(([hint, ends], i) => `def f${i}() -> ${hint}: ${ends} 1\n`).join("");
    const asynchronous =
      "async def later() -> Color: pass\nasync def many() -> AsyncIterator[Color]: yield 1\ndef bare(): pass\n";
    const told = read(command, TYPES + functions + asynchronous);
    for (const [i, [hint, ends, schema, streams]] of RESULTS.entries()) {
      const { returns, streams: told_ } = told.get(`f${i}`) as Told;
      expect([hint, ends, returns, told_]).toEqual([hint, ends, schema, streams]);
    }
    const color = { $ref: "#/$defs/Color", $defs: { Color: COLOR } };
    expect(told.get("later")).toMatchObject({ returns: color, streams: false });
    expect(told.get("many")).toMatchObject({ returns: color, streams: true });
    expect(told.get("bare")).toMatchObject({ returns: {}, streams: false });
  });

  test("a result has all the fields of its class", () => {
    const told = read(command, `${TYPES}def run() -> Node: pass\n`);
    expect(told.get("run")?.returns).toMatchObject({
      $defs: { Node: { required: ["value", "children", "color", "note", "made"] } },
    });
  });
});

test("aliases of newer Pythons are types with a name", () => {
  const newer = findPythons().filter(({ version }) => Number(version.split(".")[1]) >= 12);
  for (const { command } of newer) {
    const told = read(
      command,
      "type Json = dict[str, Json] | list[Json] | str | None\ndef run(x: Json, y: int | None): pass\n",
    );
    const json = { $ref: "#/$defs/Json" };
    expect(schemaOf(told, "run")).toEqual({
      ...json,
      $defs: {
        Json: {
          anyOf: [
            { type: "object", additionalProperties: json },
            { type: "array", items: json },
            STRING,
            { type: "null" },
          ],
        },
      },
    });
  }
});
