import { expect, test } from "vitest";
import { read, schemaOf } from "../../support/harness-signatures.ts";
import { pythonWith, skipWithoutPackages } from "../../support/pythons.ts";

const MODELS = `
import enum
from typing import *
from pydantic import BaseModel, Field

class Kind(enum.Enum):
    A = "a"

class Sub(BaseModel):
    kind: Kind

class Order(BaseModel):
    """An order."""
    sub: Sub
    count: int = Field(default=1, ge=1)
    note: str = Field(default="", alias="remark")

class Tree(BaseModel):
    children: List["Tree"] = []

def other():
    class Sub(BaseModel):
        other: int
    class Second(BaseModel):
        sub: Sub
    return Second

Second = other()

def run(order: Order, many: List[Order], n: Annotated[int, Field(description="How many")] = 1) -> Order: pass
def tree(x: Tree): pass
def same_name(x: Union[Order, Second]): pass
`;

test("a pydantic model describes itself", async (context) => {
  const python = await pythonWith("pydantic");
  skipWithoutPackages(context, python);
  const told = read(python, MODELS);
  const [order, many, n] = told.get("run")?.parameters ?? [];
  const expected = {
    Order: {
      type: "object",
      description: "An order.",
      required: ["sub"],
      properties: { sub: { $ref: "#/$defs/Sub" }, count: { type: "integer", minimum: 1, default: 1 } },
    },
    Sub: { required: ["kind"], properties: { kind: { $ref: "#/$defs/Kind" } } },
    Kind: { enum: ["a"] },
  };
  expect(order?.schema).toMatchObject({ $ref: "#/$defs/Order", $defs: expected });
  expect(many?.schema).toMatchObject({ type: "array", items: { $ref: "#/$defs/Order" }, $defs: expected });
  expect(n?.schema).toEqual({ type: "integer", description: "How many", default: 1 });
  expect(told.get("run")?.returns).toMatchObject({ $defs: { Order: { required: ["sub"] } } });
  expect(schemaOf(told, "tree")).toMatchObject({
    $ref: "#/$defs/Tree",
    $defs: { Tree: { properties: { children: { items: { $ref: "#/$defs/Tree" } } } } },
  });
  expect(schemaOf(told, "same_name")).toMatchObject({
    anyOf: [{ $ref: "#/$defs/Order" }, { $ref: "#/$defs/Second" }],
    $defs: {
      ...expected,
      Second: { properties: { sub: { $ref: "#/$defs/Second.Sub" } } },
      "Second.Sub": { properties: { other: { type: "integer" } } },
    },
  });
});
