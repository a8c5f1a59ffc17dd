import { describe, expect, test } from "vitest";
import type { FunctionSignature, JsonSchema, Parameter } from "../../../src/model/app.ts";
import { appDocument, type AppDocumentInput } from "../../../src/model/app-document.ts";
import { checkerOf, openApiFaults } from "../../support/openapi-faults.ts";

type Json = Record<string, any>; // oxlint-disable-line no-explicit-any

function parameter(name: string, schema?: JsonSchema, more: Partial<Parameter> = {}): Parameter {
  return {
    name,
    kind: "named",
    required: true,
    annotation: null,
    default: null,
    ...(schema && { schema }),
    ...more,
  };
}

function signature(name: string, more: Partial<FunctionSignature> = {}): FunctionSignature {
  return {
    name,
    parameters: [],
    isAsync: false,
    isGenerator: false,
    wantsRunId: false,
    doc: null,
    ...more,
  };
}

function documentOf(functions: readonly FunctionSignature[], more: Partial<AppDocumentInput> = {}): Json {
  const document = appDocument({
    appName: "hello",
    version: 3,
    functions,
    url: "http://127.0.0.1:4000/v4/p-1/hello",
    isPublic: false,
    ignoresExtra: false,
    ...more,
  });
  expect(openApiFaults(document)).toEqual([]);
  return document;
}

const bodyOf = (document: Json, name: string): Json =>
  document["paths"][`/${name}`].post.requestBody.content["application/json"].schema;

const ITEM: JsonSchema = {
  $ref: "#/$defs/Item",
  $defs: {
    Item: {
      type: "object",
      properties: { sub: { $ref: "#/$defs/Sub" }, items: { type: "array", items: { $ref: "#/$defs/Item" } } },
    },
    Sub: { enum: ["$ref"], default: { $ref: "#/$defs/not-a-reference" } },
  },
};

test("the document has the app's name, its version's number, its address and one path per function", () => {
  const document = documentOf([signature("run"), signature("other_2")]);
  expect(document).toMatchObject({
    openapi: "3.1.0",
    info: { title: "hello", version: "3" },
    servers: [{ url: "http://127.0.0.1:4000/v4/p-1/hello" }],
    security: [{ bearerAuth: [] }],
    components: { securitySchemes: { bearerAuth: { type: "http", scheme: "bearer" } } },
  });
  expect(Object.keys(document["paths"])).toEqual(["/run", "/other_2"]);
});

test("a function that no address reaches is not shown", () => {
  expect(documentOf([signature("runs"), signature("é"), signature("_x")])["paths"]).toEqual({});
});

test("a public app asks for no token and mentions none", () => {
  const document = documentOf([signature("run")], { isPublic: true });
  expect(JSON.stringify(document)).not.toMatch(/bearer|security|"40[13]"/);
});

describe("the body", () => {
  test("has a property for each parameter, and names those that must be there", () => {
    const document = documentOf([
      signature("run", {
        parameters: [
          parameter("n", { type: "integer" }),
          parameter("text", { type: "string", default: "x" }, { required: false, default: "'x'" }),
          parameter("any"),
        ],
      }),
    ]);
    expect(bodyOf(document, "run")).toEqual({
      type: "object",
      properties: { n: { type: "integer" }, text: { type: "string", default: "x" }, any: {} },
      required: ["n", "any"],
      additionalProperties: false,
    });
    expect(document["paths"]["/run"].post.requestBody.required).toBe(true);
  });

  test("may be left out where nothing is required", () => {
    const optional = parameter("n", {}, { required: false });
    const { post } = documentOf([signature("run", { parameters: [optional] })])["paths"]["/run"];
    expect(post.requestBody.required).toBe(false);
    expect(post.requestBody.content["application/json"].schema).not.toHaveProperty("required");
  });

  test.each([
    ["takes no others", [], false, false],
    ["takes others that are dropped", [], true, true],
    [
      "takes others as **kwargs hints them",
      [parameter("kw", { type: "integer" }, { kind: "rest" })],
      false,
      { type: "integer" },
    ],
    ["takes any others as **kwargs without a hint", [parameter("kw", {}, { kind: "rest" })], true, {}],
  ] as const)("%s", (_, parameters, ignoresExtra, expected) => {
    const document = documentOf([signature("run", { parameters })], { ignoresExtra });
    expect(bodyOf(document, "run")).toEqual({
      type: "object",
      properties: {},
      additionalProperties: expected,
    });
  });

  test("has a parameter of any name that Python allows", () => {
    const names = ["__proto__", "constructor", "é", "toString"];
    const document = documentOf([signature("run", { parameters: names.map((name) => parameter(name, {})) })]);
    expect(Object.keys(bodyOf(document, "run")["properties"])).toEqual(names);
    expect(bodyOf(document, "run")["required"]).toEqual(names);
  });
});

describe("the answer", () => {
  test("of a plain function is JSON, with the result as it is hinted", () => {
    const document = documentOf([signature("run", { returns: { type: "integer" } })]);
    const { content } = document["paths"]["/run"].post.responses["200"];
    const checker = checkerOf(document, content["application/json"].schema);
    const answer = { run_id: "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa", result: 1, run_time_ms: 0.5 };
    expect(checker.safeParse(answer).success).toBe(true);
    for (const wrong of [{ ...answer, result: "x" }, { ...answer, more: 1 }, { result: 1 }])
      expect(checker.safeParse(wrong).success).toBe(false);
  });

  test("of a stream is an event stream, with what each message holds", () => {
    const streams = [
      signature("old", { isGenerator: true }),
      signature("generator", { isGenerator: true, streams: true, returns: { type: "string" } }),
      signature("iterator", { streams: true, returns: ITEM }),
    ];
    const { paths } = documentOf(streams) as { paths: Json };
    const items = Object.values(paths).map(({ post }) => {
      const { content } = post.responses["200"];
      expect(Object.keys(content)).toEqual(["text/event-stream"]);
      return content["text/event-stream"]["x-item-schema"];
    });
    expect(items).toEqual([{}, { type: "string" }, { $ref: "#/components/schemas/Item" }]);
  });

  test("may be a 202 or an error, which are described", () => {
    const document = documentOf([signature("run")]);
    const { post } = document["paths"]["/run"];
    expect(post.parameters.map(({ name }: Json) => name)).toEqual(["async", "webhookEndpoint"]);
    expect(Object.keys(post.responses)).toEqual(["200", "202", "401", "403", "422", "500", "default"]);
    const error = checkerOf(document, post.responses.default.content["application/json"].schema);
    const told = { message: "m", code: "c", request_id: "r", error: { message: "m", code: "c", type: "t" } };
    expect(error.safeParse(told).success).toBe(true);
    expect(error.safeParse({ message: "m" }).success).toBe(false);
  });
});

describe("types with a name", () => {
  const schemas = (document: Json): string[] => Object.keys(document["components"].schemas).slice(2);

  test("stand once among the components, whoever uses them, and hold themselves", () => {
    const document = documentOf([
      signature("a", { parameters: [parameter("x", ITEM), parameter("y", ITEM)] }),
      signature("b", { parameters: [parameter("x", ITEM)], returns: ITEM }),
    ]);
    expect(schemas(document)).toEqual(["Item", "Sub"]);
    expect(document["components"].schemas.Item.properties.items.items).toEqual({
      $ref: "#/components/schemas/Item",
    });
    // What a default or a choice holds is a value, not a schema.
    expect(document["components"].schemas.Sub).toEqual((ITEM["$defs"] as Json)["Sub"]);
  });

  test("get another name where theirs is taken by another type", () => {
    const of = (name: string, type: string): JsonSchema => ({
      $ref: `#/$defs/${name}`,
      $defs: { [name]: { type } },
    });
    const document = documentOf([
      signature("a", { parameters: [parameter("x", of("Point", "string"))], returns: of("Point", "null") }),
      signature("b", { parameters: [parameter("x", of("Point", "array"))], returns: of("Error", "null") }),
      signature("c", {
        parameters: [parameter("x", of("Point", "object")), parameter("y", of("A[b]", "null"))],
      }),
    ]);
    expect(schemas(document)).toEqual([
      "Point",
      "PointOutput",
      "PointInput",
      "ErrorOutput",
      "Point_2",
      "A_b_",
    ]);
    expect(bodyOf(document, "c")["properties"].x).toEqual({ $ref: "#/components/schemas/Point_2" });
  });

  test("that are not there, and schemas that are none, say nothing", () => {
    let deep: JsonSchema = { type: "null" };
    for (let depth = 0; depth < 5_000; depth++) deep = { items: deep };
    const odd: JsonSchema[] = [
      { $ref: "#/$defs/Missing" },
      { $ref: "#" },
      { $ref: 5, $defs: 7 },
      { $schema: "x", $id: "y", $defs: { A: 3 } },
      { anyOf: 1, properties: null, items: "x", type: "string" },
      deep,
    ];
    const parameters = odd.map((schema, i) => parameter(`p${i}`, schema));
    const { p0, p1, p2, p3, p4 } = bodyOf(documentOf([signature("run", { parameters })]), "run")[
      "properties"
    ];
    expect([p0, p1, p2, p3, p4]).toEqual([{}, {}, {}, {}, { items: {}, type: "string" }]);
  });

  test("that a discriminator tells apart are found by it", () => {
    const schema = {
      discriminator: { propertyName: "kind", mapping: { cat: "#/$defs/Cat" } },
      oneOf: [{ $ref: "#/$defs/Cat" }],
      $defs: { Cat: { type: "object", title: "Cat" } },
    };
    const document = documentOf([signature("run", { parameters: [parameter("x", schema)] })]);
    expect(bodyOf(document, "run")["properties"].x).toEqual({
      discriminator: { propertyName: "kind", mapping: { cat: "#/components/schemas/Cat" } },
      oneOf: [{ $ref: "#/components/schemas/Cat" }],
    });
  });
});

test("a docstring is a summary and a description, without the code's indentation", () => {
  const texts = (doc: string | null): unknown => {
    const { summary, description } = documentOf([signature("run", { doc })])["paths"]["/run"].post;
    return [summary, description];
  };
  expect(texts(null)).toEqual([undefined, undefined]);
  expect(texts("  \n ")).toEqual([undefined, undefined]);
  expect(texts("One line.")).toEqual(["One line.", undefined]);
  expect(texts("\n    First.\n\n    Then:\n      inner\n    ")).toEqual(["First.", "Then:\n  inner"]);
});

describe("the check of documents finds", () => {
  const good = documentOf([signature("run", { parameters: [parameter("x", ITEM)] }), signature("two")]);
  test.each([
    ["another version", (d: Json) => (d["openapi"] = "3.0.3"), /^openapi:/],
    ["a reference to nothing", (d: Json) => delete d["components"].schemas.Sub, /Sub leads nowhere/],
    ["a path without a slash", (d: Json) => (d["paths"] = { run: d["paths"]["/run"] }), /^paths/],
    ["an unknown member", (d: Json) => (d["paths"]["/run"].post.odd = 1), /post: has a member/],
    [
      "a response without a text",
      (d: Json) => delete d["paths"]["/run"].post.responses["200"].description,
      /description/,
    ],
    [
      "a wrong type",
      (d: Json) => (d["components"].schemas.Item.type = "float"),
      /^components\.schemas\.Item/,
    ],
    ["a name twice", (d: Json) => (d["paths"]["/two"].post.operationId = "run"), /operationId/],
    ["security of no kind", (d: Json) => delete d["components"].securitySchemes, /bearerAuth/],
  ])("%s", (_, spoil, fault) => {
    const document = structuredClone(good);
    spoil(document);
    expect(openApiFaults(document).join("\n")).toMatch(fault);
  });
});
