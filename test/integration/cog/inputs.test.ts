import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { findPythons } from "../../support/pythons.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

/** Reads each case as an input of a model, and prints what became of each value. */
const PROGRAM = `
import enum, json, os, pathlib, sys, types
from typing import Any, Dict, List, Literal, Optional, Union
sys.path.insert(0, sys.argv[1])
from millrace_cog import cog
from millrace_cog.cog import BaseModel, File, Input, Path, Secret
from millrace_cog.files import _name_in
from millrace_cog.inputs import Field, Link, Wrong

class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"

class Bound:
    def __init__(self, **facts):
        vars(self).update(facts)

class PydanticUndefinedType: pass
class FieldInfo:
    description = None
    def __init__(self, default=PydanticUndefinedType(), metadata=(), **more):
        self.default, self.metadata = default, metadata
        vars(self).update(more)

def shown(value):
    if isinstance(value, Link):
        return ["link", value.url]
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, (enum.Enum, Secret)):
        return str(value)
    return value

def case(hint, default, *values):
    try:
        field = Field("x", hint, default, cog)
    except TypeError as error:
        return str(error)
    found = []
    for value in values:
        try:
            found.append(shown(field.read(value)))
        except Wrong as error:
            found.append(str(error))
    return [field.is_required, field.__json_schema__, found]

class Output(BaseModel):
    score: Optional[float]
    name: str
    tags: List[str] = []

def made(**values):
    try:
        output = Output(**values)
        output.tags.append("seen")
        return [output.score, output.name, output.tags]
    except TypeError as error:
        return str(error)

print(json.dumps({
    "literal": case(Literal["a", 1], ..., "a", 1, True, "b"),
    "enum": case(Size, ..., "s", "x"),
    "union": case(Union[int, str], ..., 1, "a", 1.5),
    "optional": case(Optional[int], Input(ge=3), None, 3, 2, "3"),
    "list": case(List[int], Input(le=5), [1, 5], [6], 1, []),
    "words": case(List[str], Input(choices=["a", "b"]), ["a"], ["c"]),
    "float": case(float, Input(ge=0.5), 1, 0.5, 0.25, 10**400, True),
    "bool": case(bool, False, True, 0),
    "dict": case(Dict[str, int], ..., {"a": 1}, []),
    "any": case(Any, ..., [1, {}]),
    "secret": case(Secret, ..., "hush", 1),
    "file": case(File, ..., "HTTPS://x/y", "data:,a", "ftp://x", "x"),
    "files": case(Optional[List[Path]], None, None, ["https://x/y"], ["/etc/passwd"]),
    "default link": case(Path, "https://x/default", "https://x/default"),
    "pydantic": case(int, FieldInfo(metadata=[Bound(ge=1), Bound(le=3)]), 2, 4),
    "pydantic 1": case(str, FieldInfo("a", ge=None, regex="^a", extra={"enum": ["a", "ab"]}), "ab", "b"),
    "unknown type": case(complex, ...),
    "list of unknown": case(List[complex], ...),
    "bad regex": case(str, Input(regex="(")),
    "names": [_name_in("https://x/" + name) for name in (
        "a.png", "", "a/../b.txt", "%2e%2e%2fetc", "..", "x" * 300 + ".png", "ü b\\u0000c.tar.gz?q=1#f")],
    "made": made(name="a"),
    "again": made(name="b", score=1.5),
    "lacking": made(score=1, other=2),
}))
`;

const FILE = { type: "string", format: "uri" };
const NO_LINK = "must be the URL of a file, beginning with https://, http:// or data:";

verifies("cog.inputs", "inputs of every type are read as their hints and bounds say", () => {
  for (const { command, version } of findPythons()) {
    const text = execFileSync(command, ["-I", "-c", PROGRAM, path.join(REPOSITORY, "python")], {
      encoding: "utf8",
    });
    expect([version, JSON.parse(text)]).toEqual([
      version,
      {
        literal: [true, { enum: ["a", 1] }, ["a", 1, 'must be one of "a", 1', 'must be one of "a", 1']],
        enum: [true, { enum: ["s", "l"] }, ["Size.SMALL", 'must be one of "s", "l"']],
        union: [
          true,
          { anyOf: [{ type: "integer" }, { type: "string" }] },
          [1, "a", "must be an integer, or must be a string"],
        ],
        optional: [
          false,
          { anyOf: [{ type: "integer", minimum: 3 }, { type: "null" }] },
          [null, 3, "must be at least 3", "must be an integer"],
        ],
        list: [
          true,
          { type: "array", items: { type: "integer", maximum: 5 } },
          [[1, 5], "must be at most 5", "must be a list", []],
        ],
        words: [
          true,
          { type: "array", items: { type: "string", enum: ["a", "b"] } },
          [["a"], 'must be one of "a", "b"'],
        ],
        float: [
          true,
          { type: "number", minimum: 0.5 },
          [1, 0.5, "must be at least 0.5", "must be a number of at most 308 digits", "must be a number"],
        ],
        bool: [false, { type: "boolean" }, [true, "must be true or false"]],
        dict: [true, { type: "object" }, [{ a: 1 }, "must be an object"]],
        any: [true, {}, [[1, {}]]],
        secret: [
          true,
          { type: "string", format: "password", writeOnly: true },
          ["**********", "must be a string"],
        ],
        file: [true, FILE, [["link", "HTTPS://x/y"], ["link", "data:,a"], ...Array<string>(2).fill(NO_LINK)]],
        files: [
          false,
          { anyOf: [{ type: "array", items: FILE }, { type: "null" }] },
          [null, [["link", "https://x/y"]], `has an item, number 1, that ${NO_LINK}`],
        ],
        "default link": [false, FILE, [["link", "https://x/default"]]],
        pydantic: [true, { type: "integer", minimum: 1, maximum: 3 }, [2, "must be at most 3"]],
        "pydantic 1": [
          false,
          { type: "string", pattern: "^a", enum: ["a", "ab"] },
          ["ab", "must match the regular expression ^a"],
        ],
        "unknown type": expect.stringMatching(/^predict\(\) has an input x of type complex, which/),
        "list of unknown": expect.stringMatching(
          /^predict\(\) has an input x of type typing\.List\[complex\]/,
        ),
        "bad regex": expect.stringMatching(/^the regex of the input x is none: /),
        names: ["a.png", "file", "b.txt", "etc", "file", `${"x".repeat(96)}.png`, "ü_b_c.tar.gz"],
        made: [null, "a", ["seen"]],
        again: [1.5, "b", ["seen"]],
        lacking: "Output lacks name, has no other",
      },
    ]);
  }
});
