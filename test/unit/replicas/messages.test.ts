import { expect, test } from "vitest";
import { parseHello } from "../../../src/replicas/messages.ts";

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
